"""Language models behind one seam: simulated, embedded, and anything that speaks the OpenAI protocol."""

from heldout.models.base import Message, Model, Reply, Request
from heldout.models.check import CHECK_BOUND, check_model
from heldout.models.factory import make_model

__all__ = ["CHECK_BOUND", "Message", "Model", "Reply", "Request", "check_model", "make_model"]
