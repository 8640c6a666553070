"""JSON: an incremental reader, positions for error messages, and texts of replies encoded in steps.

`json.loads` cannot be interrupted: 15 MiB block all clients for a second, in a thread as well, because the function
holds the GIL. A member of the object may be long if it is a string (a message body, a file) or a list, whose items are
parsed one by one. All other values and each item are short, so each step is short.
"""

from __future__ import annotations

import json
import re
from typing import Final

from mypy_extensions import i64

from penstock.flow.work import Steps, WorkMeter

STEP_OCTETS: Final = 32 * 1024
"""Octets parsed per step; four times as many of a long string without escapes."""
STEP_VALUES: Final = 250
"""Values parsed per step."""
VALUE_OCTETS: Final = 32 * 1024
"""Longest value other than strings and lists of the outermost object."""
ITEMS_MOST: Final = 100_000
"""Most items of all lists."""
SHORT_OCTETS: Final = 1024
"""Octets tried first for a value, because most are short."""
NEAR_END: Final = 16
"""Distance from the end of the window within which an error may come from the cut."""
NAME: Final = 0
VALUE: Final = 1
ITEM: Final = 2
TEXT: Final = 3
END: Final = 4
"""Parser states: the next token is a member's name or the end, its value, an item, a part of a long string, or nothing.
"""

_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\(?:u[0-9a-fA-F]{4}|[^u]))*+')
_DECODER: Final = json.JSONDecoder()


def is_text(value: object) -> bool:
    """Return whether all strings of a JSON value can be encoded: escapes may contain a lone surrogate."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


class JsonError(ValueError):
    """Error for an invalid or too large JSON text, with reason and position. `syntax` is true for an invalid text."""

    def __init__(self, reason: str, line: int, column: int, syntax: bool = True) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.syntax = syntax


class JsonReader:
    """Parser of one object: call `step` until it returns true, then `found` has the result of `json.loads`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.found: dict[str, object] = {}
        self.places: dict[str, list[int]] = {}
        """Position of each item of each list, in bytes from the beginning."""
        self.starts: dict[str, int] = {}
        """Position of each member's name."""
        self.has_halves: bool = False
        """True if a string has a lone surrogate, which only escapes can express."""
        self._at: i64 = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self._due: int = -1
        self._name: str = ""
        self._list: list[object] = []
        self._list_places: list[int] = []
        self._items: i64 = 0
        self._parts: list[str] = []

    def step(self) -> bool:
        """Parse one step; return whether the whole text is parsed. Raises JsonError."""
        upto = self._at + STEP_OCTETS
        values: i64 = 0
        while self._due != END and self._at < upto and values < STEP_VALUES:
            values += 1
            if self._due == TEXT:
                self._read_text()
                continue
            self._skip()
            if self._due == ITEM:
                self._read_item()
            elif self._due == VALUE:
                self._read_member()
            else:
                self._read_name()
        if self._due != END:
            return False
        self._skip()
        if self._at < len(self.data):
            raise self.error("Extra data", self._at)
        return True

    def line(self, place: int) -> int:
        """Return the line, from 1, of a position."""
        return self.data.count(b"\n", 0, place) + 1

    def error(self, reason: str, place: i64, syntax: bool = True) -> JsonError:
        """Return the error for the text at a position."""
        begin = self.data.rfind(b"\n", 0, int(place)) + 1
        column = len(self.data[begin : int(place)].decode(errors="replace")) + 1
        return JsonError(reason, self.line(int(place)), column, syntax)

    # Parts of the object

    def _read_name(self) -> None:
        if self._due == -1:
            self._expect(b"{", "an object is expected")
            self._due = NAME
            self._skip()
        if self._next() == b"}" and not self.found:
            self._at += 1
            self._due = END
            return
        if self._next() != b'"':
            raise self.error("Expecting property name enclosed in double quotes", self._at)
        at = self._at
        name = self._value()
        assert isinstance(name, str)
        self._name = name
        self.starts[name] = int(at)
        self._skip()
        self._expect(b":", "Expecting ':' delimiter")
        self._due = VALUE

    def _read_member(self) -> None:
        first = self._next()
        if first == b'"':
            self._at += 1
            self._parts = []
            self._due = TEXT
        elif first == b"[":
            self._at += 1
            self._list = []
            self._list_places = []
            self.found[self._name] = self._list
            self.places[self._name] = self._list_places
            self._due = ITEM
        else:
            self.found[self._name] = self._value()
            self._end_member()

    def _read_item(self) -> None:
        if self._next() == b"]" and not self._list:
            self._at += 1
            self._end_member()
            return
        self._items += 1
        if self._items > ITEMS_MOST:
            raise self.error(f"more than {ITEMS_MOST:,} items of lists", self._at, False)
        self._list_places.append(int(self._at))
        self._list.append(self._value())
        self._skip()
        if self._next() == b"]":
            self._at += 1
            self._end_member()
        else:
            self._expect(b",", "Expecting ',' delimiter")

    def _end_member(self) -> None:
        self._skip()
        if self._next() == b"}":
            self._at += 1
            self._due = END
        else:
            self._expect(b",", "Expecting ',' delimiter")
            self._due = NAME
            self._skip()
            if self._next() != b'"':
                raise self.error("Expecting property name enclosed in double quotes", self._at)

    def _read_text(self) -> None:
        """Parse a part of a long string, cut between characters and escapes."""
        data, at = self.data, int(self._at)
        match = _TEXT.match(data, at, at + STEP_OCTETS)
        assert match is not None
        end = match.end()
        ended = data[end : end + 1] == b'"'
        if not ended:
            while end > at and end < len(data) and data[end] & 0xC0 == 0x80:
                end -= 1  # Not in the middle of a character.
        if end == at and not ended:
            raise self.error("Unterminated string or invalid escape", self._at)
        text = self._text(data[at:end], at)
        if not ended and text and 0xD800 <= ord(text[-1]) <= 0xDBFF and end < len(data):
            text, end = text[:-1], end - 6  # The second surrogate is the next escape.
            if end == at:
                text, end = self._text(data[at : at + 12], at), at + 12
        self._parts.append(text)
        if b"\\u" in data[at:end] and not is_text(text):
            self.has_halves = True
        self._at = end + 1 if ended else end
        if ended:
            self.found[self._name] = "".join(self._parts)
            self._parts = []
            self._end_member()

    def _text(self, octets: bytes, at: int) -> str:
        try:
            return str(json.loads(b'"' + octets + b'"'))
        except UnicodeDecodeError as error:
            raise self.error("not UTF-8", at + max(error.start - 1, 0)) from None
        except json.JSONDecodeError as error:
            raise self.error(error.msg, at + max(error.pos - 1, 0)) from None

    # Values and characters

    def _value(self) -> object:
        """Parse a short value."""
        cut = self._at + SHORT_OCTETS < len(self.data)
        text = self._window(SHORT_OCTETS)
        decoded = self._decoded(text, cut)
        if decoded is None and cut:
            cut = self._at + VALUE_OCTETS < len(self.data)
            text = self._window(VALUE_OCTETS)
            decoded = self._decoded(text, cut)
        if decoded is None:
            raise self.error(f"a value is longer than {VALUE_OCTETS:,} bytes", self._at, False)
        value, end = decoded
        if "\\u" in text[:end] and not is_text(value):
            self.has_halves = True
        self._at += end if text.isascii() else len(text[:end].encode())
        return value

    def _window(self, most: int) -> str:
        """Return the text at the position, up to a number of bytes."""
        window = self.data[self._at : self._at + most]
        try:
            return window.decode()
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data" or self._at + most >= len(self.data):
                raise self.error("not UTF-8", self._at + error.start) from None
            return window[: error.start].decode()

    def _decoded(self, text: str, cut: bool) -> tuple[object, int] | None:
        """Return the value at the beginning of a text and its end; None if the value may continue after the cut."""
        try:
            value, end = _DECODER.raw_decode(text)
        except json.JSONDecodeError as error:
            if cut and (error.pos >= len(text) - NEAR_END or error.msg.startswith("Unterminated")):
                return None
            raise self.error(error.msg, self._at + len(text[: error.pos].encode())) from None
        except RecursionError:
            raise self.error("nested too deeply", self._at, False) from None
        except ValueError:  # int() refuses thousands of digits.
            raise self.error("a number has too many digits", self._at, False) from None
        return None if cut and end == len(text) else (value, end)

    def _next(self) -> bytes:
        at = int(self._at)
        return self.data[at : at + 1]

    def _expect(self, octet: bytes, reason: str) -> None:
        if self._next() != octet:
            raise self.error(reason, self._at)
        self._at += 1

    def _skip(self) -> None:
        """Skip whitespace."""
        at = int(self._at)
        match = _BLANK.match(self.data, at, at + STEP_OCTETS)
        assert match is not None
        self._at = match.end()
        if self._at - at >= STEP_OCTETS:
            raise self.error(f"more than {STEP_OCTETS:,} blanks in a row", self._at, False)


_BLANK_TEXT: Final = re.compile(r"[ \t\r\n]*")


def line_of(text: str, path: list[str | int]) -> int:
    """Return the line, from 1, of a key or item in a well-formed JSON text; of its parent for a missing key or item."""
    at = _skip(text, 0)
    position = at
    for step in path:
        place = _find(text, at, step)
        if place is None:
            break
        position, at = place
    return text.count("\n", 0, position) + 1


def _find(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Return the positions of a key of the object at `at`, or an item of the array at `at`, and of its value."""
    is_key = isinstance(step, str)
    if text[at] != ("{" if is_key else "["):
        return None
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "}]":
        name: object = index
        value = at
        if is_key:
            name, end = _decoded(text, at)
            value = _skip(text, _skip(text, end) + 1)
        if name == step:
            return at, value
        index += 1
        at = _skip(text, _decoded(text, value)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None


def _skip(text: str, at: int) -> int:
    match = _BLANK_TEXT.match(text, at)
    assert match is not None
    return match.end()


def _decoded(text: str, at: int) -> tuple[object, int]:
    """Return the value at `at`, and its end."""
    value, end = json.JSONDecoder().raw_decode(text, at)
    return value, int(end)


OCTETS_A_UNIT: Final = 128
"""Octets of JSON that are read or made per unit of work."""
ITEMS_AT_ONCE: Final = 4
"""Items of a list that are encoded per step."""


def text_steps(answer: dict[str, object], work: WorkMeter) -> Steps[bytes]:
    """Return a reply as JSON, equal to `json.dumps`; lists are encoded in steps."""
    parts: list[bytes] = []
    before = "{"
    for name, value in answer.items():
        head = f"{before}{json.dumps(name)}: "
        before = ", "
        if isinstance(value, list):
            parts.append(head.encode())
            yield from _list_steps(value, parts, work)
        else:
            parts.append((head + json.dumps(value)).encode())
    parts.append(b"}" if answer else b"{}")
    return b"".join(parts)


def _list_steps(items: list[object], parts: list[bytes], work: WorkMeter) -> Steps[None]:
    before = "["
    for start in range(0, len(items), ITEMS_AT_ONCE):
        text = before + json.dumps(items[start : start + ITEMS_AT_ONCE])[1:-1]
        before = ", "
        parts.append(text.encode())
        if work.spend(1 + len(text) // OCTETS_A_UNIT):
            yield
    parts.append(b"]" if items else b"[]")
