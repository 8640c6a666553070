"""The body of a large message, walked while it arrives (sections 3.2.6 to 3.2.9).

A body that is walked in pieces is one or more data sections, or an amqp-value that is a string or a binary; a footer
may follow. Only the positions of the data are stored. Descriptors are in their usual form, a ulong of one byte.
"""

from __future__ import annotations

from codecs import IncrementalDecoder, getincrementaldecoder
from typing import Final

from mypy_extensions import i64

from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import AMQP_VALUE, APPLICATION_PROPERTIES, DATA, FOOTER, HEADER
from penstock.wire.amqp10.value_walk import (
    ANNOTATION_KEYS,
    BINARY8,
    BINARY32,
    DESCRIBED,
    SMALL_ULONG,
    STRING8,
    STRING32,
    UNFIT,
    map_end,
    u32,
    value_end,
)
from penstock.wire.amqp10.values import CodecError

START_OCTETS: Final = 8
"""Bytes of a section up to its data: a descriptor, a format code and a size of four bytes."""
FOOTER_MAX: Final = 64 * 1024
"""Most bytes of a footer behind a large body; larger footers are refused."""
SECTIONS_MAX: Final = 1024
"""Most data sections of a large body; bodies with more are refused."""


def body_start(data: bytes, end: i64) -> i64:
    """Return the start of the body of a message whose first bytes are given; `UNFIT` if it is unknown.

    The start is also unknown if an earlier section is malformed, or its descriptor is in a rare form.
    """
    pos: i64 = 0
    while end - pos >= START_OCTETS and data[pos] == DESCRIBED and data[pos + 1] == SMALL_ULONG:
        code: i64 = data[pos + 2]
        if DATA <= code <= AMQP_VALUE:
            return pos
        if code < HEADER or code > APPLICATION_PROPERTIES:
            return UNFIT
        pos = value_end(data, pos + 3, end)
        if pos == UNFIT:
            return UNFIT
    return UNFIT


def may_walk(data: bytes, pos: i64) -> bool:
    """Return whether a body that begins at `pos`, with at least eight bytes, can be walked in pieces."""
    code: i64 = data[pos + 3]
    if data[pos + 2] == DATA:
        return code == BINARY8 or code == BINARY32
    return data[pos + 2] == AMQP_VALUE and (code == BINARY32 or code == STRING32)


class BodyWalk:
    """A walk over the body of one message."""

    def __init__(self) -> None:
        self.code: i64 = ABSENT
        """Descriptor of the body's sections."""
        self.octets: i64 = 0
        """Bytes that have arrived."""
        self.starts: list[int] = []
        self.sizes: list[int] = []
        """Positions of the data of the data sections, and the bytes of each."""
        self._left: i64 = 0
        """Bytes of the present section that are still to arrive."""
        self._start: bytes = b""
        """The first bytes of a section, or the footer so far."""
        self._in_footer: bool = False
        self._decoder: IncrementalDecoder | None = None
        """Checks the bytes of a string; None in other sections."""

    def feed(self, data: bytes) -> None:
        """Walk over the next bytes. Raises CodecError."""
        pos: i64 = 0
        n: i64 = len(data)
        while pos < n:
            if self._in_footer:
                self._start += data[pos:n]
                pos = n
                if len(self._start) > FOOTER_MAX:
                    raise CodecError(f"footer: more than {FOOTER_MAX:,} bytes behind a large body")
            elif self._left > 0:
                count = n - pos if n - pos < self._left else self._left
                self._check_text(data, pos, pos + count)
                self._left -= count
                pos += count
            else:
                before: i64 = len(self._start)
                start = self._start + data[pos : pos + START_OCTETS - before]
                used = self._begin(start, self.octets + pos - before)
                self._start = b""
                if used <= 0:
                    self._start = start
                    used = len(start)
                pos += used - before
        self.octets += n

    def finish(self) -> None:
        """Check that the body is complete. Raises CodecError."""
        if self._in_footer:
            if map_end(self._start, 3, len(self._start), ANNOTATION_KEYS, 2) != len(self._start):
                raise CodecError("footer: malformed")
        elif self._left > 0 or self._start:
            raise CodecError(f"the last section of a body ends {self._left} bytes before its size")

    def _begin(self, start: bytes, position: i64) -> i64:
        """Begin the section whose first bytes are given. Return how many bytes were used; 0 if more are needed."""
        n: i64 = len(start)
        if n < 5:
            return 0
        code: i64 = start[2]
        if start[0] != DESCRIBED or start[1] != SMALL_ULONG:
            raise CodecError("a section of a large body does not begin with its descriptor in one byte")
        if code == FOOTER:
            self._in_footer = True
            return 0
        kind: i64 = start[3]
        fits = kind == BINARY8 or kind == BINARY32
        if self.code == ABSENT and code == AMQP_VALUE:
            fits = fits or kind == STRING8 or kind == STRING32
        elif code != DATA or self.code == AMQP_VALUE:
            raise CodecError(f"a large body has a section with the descriptor {int(code):#04x} after its first one")
        if not fits:
            raise CodecError("a section of a large body is neither binary nor a string")
        used: i64 = 5
        size: i64 = start[4]
        if kind == BINARY32 or kind == STRING32:
            if n < START_OCTETS:
                return 0
            used = START_OCTETS
            size = u32(start, 4)
        self._note(code, kind, position + used, size)
        return used

    def _note(self, code: i64, kind: i64, at: i64, size: i64) -> None:
        if len(self.starts) == SECTIONS_MAX:
            raise CodecError(f"a large body has more than {SECTIONS_MAX:,} data sections")
        self.code = code
        self.starts.append(int(at))
        self.sizes.append(int(size))
        self._left = size
        self._decoder = getincrementaldecoder("utf-8")() if kind == STRING8 or kind == STRING32 else None

    def _check_text(self, data: bytes, start: i64, stop: i64) -> None:
        decoder = self._decoder
        if decoder is None:
            return
        try:
            decoder.decode(data[start:stop], stop - start == self._left)
        except UnicodeDecodeError:
            raise CodecError("amqp-value: a string that is not UTF-8") from None
