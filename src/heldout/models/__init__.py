"""Language models behind one seam: simulated, embedded, Claude, and anything that speaks the OpenAI protocol."""

from heldout.models.base import Message, Model, Reply, ReplyTokens, Request, ToolCall, ToolSpec, WeightsModel
from heldout.models.check import check_bound, check_model
from heldout.models.factory import SIMULATIONS, check_simulation, make_model

__all__ = [
    "SIMULATIONS",
    "Message",
    "Model",
    "Reply",
    "ReplyTokens",
    "Request",
    "ToolCall",
    "ToolSpec",
    "WeightsModel",
    "check_bound",
    "check_model",
    "check_simulation",
    "make_model",
]
