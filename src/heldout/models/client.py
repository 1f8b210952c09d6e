"""What the clients of the vendors' packages share: one connection, one request with retries, one checked reply."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from heldout.models.endpoint import Endpoint
from heldout.models.retry import Answered, Backoff, Transient
from heldout.records import digest_of

__all__ = ["Client", "first_fault"]

A = TypeVar("A")


class Client(ABC, Generic[A]):
    """Sends requests to one endpoint. Connects on first use; picklable; safe to share between threads.

    A subclass gives the vendor's package, whose errors have one set of names in all of them, and three steps.
    The package's own retries are off: `Backoff` counts every attempt.
    """

    def __init__(self, endpoint: Endpoint, backoff: Backoff) -> None:
        self.endpoint = endpoint
        self._backoff = backoff
        self._reached = False
        self._connection: Any = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "backoff": self._backoff, "reached": self._reached}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy goes to a worker while the server is known to be up: there, a refused connection is worth retrying.
        Client.__init__(self, state["endpoint"], state["backoff"])
        self._reached = state["reached"]

    def send(self, body: Mapping[str, Any], *, extra: Mapping[str, Any]) -> Answered[A]:
        """Post `body`, with `extra` fields that the protocol does not know. Raises as `Model.complete` does."""
        seed = digest_of([dict(body), dict(extra)])
        where = f"{self.endpoint.model!r} at {self.endpoint.url}"
        return self._backoff.run(lambda: self._attempt(body, extra), what=where, seed=seed)

    def close(self) -> None:
        """Close the connections. Safe to call twice; a later `send` connects again."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @abstractmethod
    def package(self) -> ModuleType:
        """The vendor's package, imported here and not before."""

    @abstractmethod
    def connect(self, package: Any) -> Any:
        """A new connection object of the package."""

    @abstractmethod
    def post(self, connection: Any, body: Mapping[str, Any], extra: Mapping[str, Any]) -> bytes:
        """One request; the body of its reply, unread."""

    @abstractmethod
    def parse(self, content: bytes) -> A:
        """The checked reply. Raises `Transient` for what is none."""

    def _attempt(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> A:
        package: Any = self.package()
        connection = self._connected(package)
        # `from None`: a reply may quote the key, and a chained exception would print it beside our cleaned message.
        try:
            content = self.post(connection, body, extra)
        except package.APITimeoutError:
            raise Transient(f"no answer within {self.endpoint.timeout_s:g} s") from None
        except package.APIConnectionError as cause:
            raise self._broken(cause) from None
        except package.APIStatusError as cause:
            self._reached = True
            raise self._refused(cause) from None
        self._reached = True
        return self.parse(content)

    def _connected(self, package: Any) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = self.connect(package)
            return self._connection

    def _broken(self, cause: BaseException) -> Exception:
        inner = cause.__cause__ or cause
        # By name, since the class comes from whichever HTTP library this version of the package stands on.
        refused = type(inner).__name__ == "ConnectError" and not self._reached
        return self.endpoint.broken(f"{type(inner).__name__}: {inner}", refused=refused)

    def _refused(self, cause: Any) -> Exception:
        return self.endpoint.refused(cause.status_code, text=cause.response.text, headers=cause.response.headers)


def first_fault(cause: ValidationError) -> str:
    """Where a reply does not fit its protocol, and how."""
    fault = cause.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc']) or 'body'}: {fault['msg']}"
