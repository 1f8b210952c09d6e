"""Where a model is served, where its key is found, and who may be sent it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urlsplit

from heldout.errors import ModelError, SetupError
from heldout.models.retry import Transient, retry_after_s

__all__ = ["Endpoint", "is_at", "is_loopback"]

_DETAIL_LENGTH = 300
_HOMES = MappingProxyType({"OPENAI_API_KEY": "openai.com", "ANTHROPIC_API_KEY": "anthropic.com"})
"""A vendor's own variable, and the only domain (besides this machine) that its key is sent to."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind a URL. It says how every HTTP fault there is to be taken, in words that hold no key."""

    url: str
    model: str
    timeout_s: float
    api_key_env: str = ""
    loopback_key: str = field(default="", repr=False)
    """Key of a server that Heldout itself started; it opens nothing else."""

    def key(self) -> str:
        """The key, read anew from the environment each time; `SetupError` where it is missing or malformed."""
        key = self.loopback_key or os.environ.get(self.api_key_env, "").strip()
        if not key and is_loopback(self.url):
            return "none"
        home = _HOMES.get(self.api_key_env)
        if home is not None and not (is_at(self.url, home) or is_loopback(self.url)):
            raise SetupError(
                f"{self.api_key_env} is not sent to {self.url}: name the variable that holds this server's key with "
                f"api_key_env (any value will do for a server that asks for none)"
            )
        if not key:
            raise SetupError(
                f"no key for {self.model!r} at {self.url}: set the environment variable {self.api_key_env} "
                f"(or name another one with api_key_env)"
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SetupError(f"the environment variable {self.api_key_env} does not hold a key: it has odd characters")
        return key

    def broken(self, reason: str, *, refused: bool) -> Exception:
        """What a failed connection means; `refused` says that nothing listens and that nothing ever did."""
        shown = self.clean(reason)
        if refused:
            return ModelError(f"cannot connect to {self.url} ({shown}); is the server running?")
        return Transient(f"the connection broke ({shown})")

    def refused(self, status: int, *, text: str, headers: Mapping[str, str]) -> Exception:
        """What a status other than 2xx means: a fault to wait out, one that the user can mend, or no answer."""
        if status in (401, 403):
            return SetupError(
                f"{self.url} refused the key (HTTP {status}) for {self.model!r}; "
                f"check the environment variable {self.api_key_env}"
            )
        detail = self.clean(text)
        if status == 404:
            return SetupError(f"{self.url} has no model {self.model!r} (HTTP 404: {detail}); check name and url")
        if status in (408, 429) or status >= 500:
            asked_s = retry_after_s(headers.get("retry-after"), date=headers.get("date"))
            return Transient(f"HTTP {status}: {detail}", retry_after_s=asked_s)
        return ModelError(f"{self.model!r} at {self.url}: HTTP {status}: {detail}")

    def clean(self, text: str) -> str:
        """One line of a server's words, without the key."""
        key = self.key()
        shown = text if key == "none" else text.replace(key, "***")
        return " ".join(shown.split())[:_DETAIL_LENGTH]


def is_loopback(url: str) -> bool:
    """Whether `url` names this machine's loopback interface; a name that only begins like one does not."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_at(url: str, domain: str) -> bool:
    """Whether `url` is a service of this domain, to which alone its owner's key and headers go unasked."""
    host = urlsplit(url).hostname or ""
    return host == domain or host.endswith(f".{domain}")
