"""Blocks on their way from one Penstock to another: their header is written anew, and their data passed on as it is.

A block of the columns `sequence`, `content` and perhaps `routing_key` that was read from a cursor becomes one to be
published (docs/inside/blocks.md): it names its target and its mark. No message is decoded.
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.client.errors import ClientError

MAGIC: Final = b"PSB1"
ALIGNMENT: Final = 64
_PREFIX: Final = 8
"""Bytes before the header."""
_PLACE_DIGITS: Final = 12
"""Characters by which the position of a buffer may grow when the header does."""
_SEQUENCE_OCTETS: Final = 8


class CarriedBlock:
    """One block."""

    def __init__(self, block: memoryview) -> None:
        """Raises `ClientError` unless it has the columns of a bridge."""
        size = int.from_bytes(block[4:_PREFIX], "little")
        head = json.loads(bytes(block[_PREFIX : _PREFIX + size]))
        self._data = block
        self._begin = _aligned(_PREFIX + size)
        """Position of the first buffer."""
        self._columns: dict[str, Any] = head["columns"]
        self.rows: int = head["rows"]
        self.last: int = head["last"]
        """Sequence of the last message."""
        if self.rows and not {"sequence", "content"} <= self._columns.keys():
            raise ClientError("the broker answered with a block that has no contents")
        self.bytes: int = self._columns["content"]["data"][1] if self.rows else 0
        """Bytes of all contents."""

    def sequences(self) -> bytes:
        """Return the sequences of the messages, in eight bytes each."""
        start, length = self._columns["sequence"]["data"]
        return bytes(self._data[start : start + length])

    def published(self, exchange: str, key: str | None, mark: dict[str, object]) -> bytes:
        """Return the block to be published to an exchange, with the key of all messages, or with the key of each."""
        columns: dict[str, Any] = {**self._columns, "exchange": {"all": exchange}}
        if key is not None:
            columns["routing_key"] = {"all": key}
        places = [column for column in columns.values() if "all" not in column]
        head = {"rows": self.rows, "columns": columns, "mark": mark}
        most = len(_encoded(head)) + sum(len(column) for column in places) * _PLACE_DIGITS
        begin = _aligned(_PREFIX + most)
        for column in places:
            for name, place in column.items():
                column[name] = [place[0] + begin - self._begin, place[1]]
        text = _encoded(head)
        padding = bytes(begin - _PREFIX - len(text))
        data = self._data[self._begin :]
        self._columns = {}  # The positions are those of the published block now.
        return b"".join((MAGIC, len(text).to_bytes(4, "little"), text, padding, data))


def sequence_at(sequences: bytes, row: int) -> int:
    """Return the sequence of a row."""
    return int.from_bytes(sequences[row * _SEQUENCE_OCTETS : (row + 1) * _SEQUENCE_OCTETS], "little")


def _aligned(octets: int) -> int:
    return -(-octets // ALIGNMENT) * ALIGNMENT


def _encoded(head: dict[str, object]) -> bytes:
    return json.dumps(head, separators=(",", ":")).encode()
