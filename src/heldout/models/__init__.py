"""Language models behind one seam: simulated, embedded, Claude, and anything that speaks the OpenAI protocol."""

from heldout.models.base import Message, Model, Reply, Request, ToolCall, ToolSpec, WeightsModel
from heldout.models.check import CHECK_BOUND, check_model
from heldout.models.factory import SIMULATIONS, check_simulation, make_model

__all__ = [
    "CHECK_BOUND",
    "SIMULATIONS",
    "Message",
    "Model",
    "Reply",
    "Request",
    "ToolCall",
    "ToolSpec",
    "WeightsModel",
    "check_model",
    "check_simulation",
    "make_model",
]
