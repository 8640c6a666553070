"""Fields of a composite in place, without objects: for the performatives of every message.

A cursor moves from field to field and records whether any was malformed; it never leaves its list. The reader of a
performative checks once, at its end, and `composite` words the error.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.wire.amqp10.composite import Composite, decode_performative, descriptor_code, read_field
from penstock.wire.amqp10.spec import ACCEPTED, COMPOSITES, MODIFIED, TRANSFER, FieldSpec
from penstock.wire.amqp10.value_reader import ValueReader
from penstock.wire.amqp10.value_walk import (
    BINARY8,
    BINARY32,
    BOOLEAN,
    DESCRIBED,
    FALSE,
    LIST0,
    LIST8,
    LIST32,
    NULL,
    SMALL_UINT,
    SMALL_ULONG,
    TRUE,
    UBYTE,
    UINT,
    UINT0,
    WIDTHS,
    content_count,
    content_start,
    content_stop,
    u32,
    value_end,
)
from penstock.wire.amqp10.values import CodecError

ABSENT: Final = -1
"""A field that is null, or lies after the last field."""
NONE: Final = 0
"""A descriptor that the specification does not have."""


def _field_named(code: int, name: str) -> FieldSpec:
    return next(field for field in COMPOSITES[code].fields if field.name == name)


STORED_STATE_MAX: Final = 128
"""Most bytes of a delivery state that is cached and not decoded again when it repeats."""
_STATE: Final = _field_named(TRANSFER, "state")


class FieldCursor:
    """Position in the fields of one composite."""

    __slots__ = ("data", "pos", "end", "left", "start", "stop", "malformed", "state_code", "state", "_octets", "_state")

    def __init__(self) -> None:
        self.data: bytes = b""
        self.pos: i64 = 0
        self.end: i64 = 0
        """End of the list, or of the bytes before `enter`."""
        self.left: i64 = 0
        """Fields left."""
        self.start: i64 = 0
        """Position of the bytes of the last binary or other value; 0 if it was absent."""
        self.stop: i64 = 0
        self.malformed: bool = False
        self.state_code: i64 = ABSENT
        """Descriptor of the last delivery state: `ABSENT` without one, `NONE` if the specification lacks it."""
        self.state: object = None
        """The last delivery state; None if it has no fields."""
        self._octets: bytes = b""
        """Bytes of the last state of the specification with fields: all messages of a transaction have the same
        state.
        """
        self._state: Composite | None = None
        """The decoded state of these bytes."""

    def open(self, data: bytes, pos: i64, end: i64) -> i64:
        """Move to the value of the described value at `pos`; return its descriptor.

        An unknown descriptor is `NONE`, or a number of no composite and no section. Raises CodecError if it is
        malformed.
        """
        self.data = data
        self.end = end
        self.left = 0
        self.malformed = False
        if end - pos >= 3 and data[pos] == DESCRIBED and data[pos + 1] == SMALL_ULONG:
            self.pos = pos + 3
            code: i64 = data[pos + 2]
            return code
        return self._open_other(data, pos, end)

    def _open_other(self, data: bytes, pos: i64, end: i64) -> i64:
        """Read a descriptor in one of its rare forms: eight bytes, or a symbol."""
        reader = ValueReader(data, int(pos), int(end))
        if reader.octet() != DESCRIBED:
            raise CodecError("a composite or section must begin with its descriptor")
        code = descriptor_code(reader.value(2))
        self.pos = reader.pos
        return code

    def enter_at(self, data: bytes, pos: i64, end: i64) -> None:
        """Move to the first field of the list at `pos`, whose descriptor lies before it."""
        self.data = data
        self.pos = pos
        self.end = end
        self.left = 0
        self.malformed = False
        self.enter()

    def enter(self) -> None:
        """Move to the first field."""
        data = self.data
        pos = self.pos
        if pos >= self.end:
            self.malformed = True
            return
        code: i64 = data[pos]
        if code == LIST8 or code == LIST32:
            width: i64 = WIDTHS[code]
            stop = content_stop(data, pos + 1, self.end, width)
            if stop < 0:
                self.malformed = True
                return
            self.left = content_count(data, pos + 1, width)
            self.pos = content_start(pos + 1, width)
            self.end = stop
        elif code == LIST0:
            self.pos = pos + 1
            self.end = pos + 1
        else:
            self.malformed = True

    def _code(self) -> i64:
        """Return the format code of the next field and move to its value; the code of null if it is absent."""
        if self.left == 0:
            return NULL
        self.left -= 1
        pos = self.pos
        if pos >= self.end:
            self._fail()
            return NULL
        self.pos = pos + 1
        code: i64 = self.data[pos]
        return code

    def _fail(self) -> i64:
        """Record that a field is malformed: later fields are absent."""
        self.malformed = True
        self.left = 0
        return ABSENT

    def uint(self) -> i64:
        """Read a uint; `ABSENT` if it is null."""
        code = self._code()
        pos = self.pos
        if code == SMALL_UINT:
            if pos < self.end:
                self.pos = pos + 1
                octet: i64 = self.data[pos]
                return octet
        elif code == UINT:
            if self.end - pos >= 4:
                self.pos = pos + 4
                return u32(self.data, pos)
        elif code == UINT0:
            return 0
        elif code == NULL:
            return ABSENT
        return self._fail()

    def ubyte(self, largest: i64) -> i64:
        """Read a ubyte up to `largest`; `ABSENT` if it is null."""
        code = self._code()
        if code == NULL:
            return ABSENT
        pos = self.pos
        if code == UBYTE and pos < self.end:
            octet: i64 = self.data[pos]
            if octet <= largest:
                self.pos = pos + 1
                return octet
        return self._fail()

    def boolean(self) -> i64:
        """Read a boolean as 0 or 1; `ABSENT` if it is null."""
        code = self._code()
        if code == TRUE:
            return 1
        if code == FALSE:
            return 0
        if code == NULL:
            return ABSENT
        pos = self.pos
        if code == BOOLEAN and pos < self.end:
            octet: i64 = self.data[pos]
            if octet <= 1:
                self.pos = pos + 1
                return octet
        return self._fail()

    def binary(self, largest: i64) -> None:
        """Read a binary of at most `largest` bytes, from `start` to `stop`, both 0 if it is null."""
        self.start = 0
        self.stop = 0
        code = self._code()
        if code == NULL:
            return
        pos = self.pos
        size = largest + 1
        if code == BINARY8 and pos < self.end:
            octet: i64 = self.data[pos]
            size = octet
            pos += 1
        elif code == BINARY32 and self.end - pos >= 4:
            size = u32(self.data, pos)
            pos += 4
        if size > largest or size > self.end - pos:
            self._fail()
            return
        self.start = pos
        self.stop = pos + size
        self.pos = pos + size

    def any(self) -> None:
        """Read a value of any type: including its format code it lies from `start` to `stop`, both 0 if it is null."""
        self.start = 0
        self.stop = 0
        code = self._code()
        if code == NULL:
            return
        start = self.pos - 1
        stop = value_end(self.data, start, self.end, 3)
        if stop < 0:
            self._fail()
            return
        self.start = start
        self.stop = stop
        self.pos = stop

    def delivery_state(self) -> None:
        """Read a delivery state into `state_code` and `state`."""
        self.any()
        self.state = None
        self.state_code = ABSENT
        if self.start == 0:
            return
        data = self.data
        start = self.start
        if self.stop - start <= 6 and data[start] == DESCRIBED and data[start + 1] == SMALL_ULONG:
            code: i64 = data[start + 2]
            # Without fields: an empty list, or a list of eight-bit size, as JMS clients write it.
            if ACCEPTED <= code <= MODIFIED and (data[start + 3] == LIST0 or data[start + 3] == LIST8):
                if self.stop - start == 4 or data[start + 5] == 0:
                    self.state_code = code
                    return
        octets = data[start : self.stop]
        last = self._state
        if last is not None and octets == self._octets:
            self.state_code = last.code
            self.state = last
            return
        try:
            state = read_field(ValueReader(data, int(start), int(self.stop)), _STATE, 3)
        except CodecError:
            self._fail()
            return
        self.state_code = NONE
        self.state = state
        if isinstance(state, Composite):
            self.state_code = state.code
            if ACCEPTED <= state.code <= MODIFIED and all(value is None for value in state.fields.values()):
                self.state = None
            elif len(octets) <= STORED_STATE_MAX:
                self._octets = octets
                self._state = state

    def is_finished(self) -> bool:
        """Return whether all fields were read, were well formed, and fill their list."""
        return not self.malformed and self.left == 0 and self.pos == self.end


def malformed(data: bytes, pos: i64, end: i64) -> CodecError:
    """Return the error for the composite at `pos`, which a cursor found malformed."""
    try:
        composite = decode_performative(data, int(pos), int(end))[0]
    except CodecError as error:
        return error
    return CodecError(f"{composite.name}: malformed")
