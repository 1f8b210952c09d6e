"""Output of a command, kept to a limit while it is read: the head, the tail, and how much is missing between."""

from __future__ import annotations

__all__ = ["CappedOutput"]


class CappedOutput:
    """Holds at most `limit` bytes, however much is added."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        """Bytes that were added."""
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, chunk: bytes) -> None:
        """Keep what the limit allows; the newest bytes push out those in the middle."""
        self.total += len(chunk)
        room = self._limit // 2 - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        spare = len(self._tail) - (self._limit - self._limit // 2)
        if spare > 0:
            del self._tail[:spare]

    def text(self) -> str:
        """What was kept, as UTF-8 with replacements; a character that the cut went through is left out."""
        left_out = self.total - len(self._head) - len(self._tail)
        if left_out == 0:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = _without_cut_end(bytes(self._head)), _without_cut_start(bytes(self._tail))
        left_out = self.total - len(head) - len(tail)
        return f"{head.decode('utf-8', 'replace')}\n[… {left_out} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


def _without_cut_start(data: bytes) -> bytes:
    """`data` from its first byte that begins a character (a character has at most three further bytes)."""
    start = next((index for index, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    return data[start:]


def _without_cut_end(data: bytes) -> bytes:
    """`data` without a last character whose further bytes are missing."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data
