"""Texts for users: near matches of misspelt names, escapes, and amounts with units such as `4MB` and `30 min`.

Clients choose names. A line feed in one could forge a line of the log; an escape sequence could rewrite a terminal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fractions import Fraction

BYTES: Final = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("kmgt", 1)},
}
"""Bytes of a unit, as in RabbitMQ: MB is 1,000,000, and M is 1,048,576 like MiB."""
TIMES: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
"""Milliseconds of a unit."""
AMOUNT: Final = re.compile(r"\s*(\d{1,20}(?:\.\d{1,9})?)\s*([a-zA-Z]+)\s*")
SHOWN_BYTES: Final = tuple(
    (size, name)
    for power, letter in reversed(tuple(enumerate("KMGT", 1)))
    for size, name in ((1024**power, f"{letter}iB"), (1000**power, f"{letter}B"))
    if name != "KB"
)
SHOWN_TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
SCOPE_NOUNS: Final = {
    "queue": "queues",
    "address": "exchanges",
    "vhost": "vhosts",
    "user": "users",
    "connection": "connections",
    "producer": "users",
    "broker": "broker",
}
"""Scopes of settings by pattern, with their nouns at the command line."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is nearest to a misspelt one; "" if none has at least this similarity (difflib), 0 to
    1.
    """
    import difflib  # A successful command does not need difflib.

    matches = difflib.get_close_matches(name, [*known], n=1, cutoff=cutoff)
    return matches[0] if matches else ""


def hint(name: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """Return the clause about a misspelt name: the nearest known name, or otherwise all that are `listed` (None:
    known).
    """
    names = [*known]
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"known are {', '.join(names if listed is None else listed)}"


def joined(text: str, clause: str) -> str:
    """Return a text with a further clause: after a question ("did you mean ...?") it is a sentence of its own."""
    return f"{text} {clause[0].upper()}{clause[1:]}" if text.endswith("?") else f"{text}; {clause}"


WORDED_LETTERS: Final = 80
"""Most characters of a value in a sentence."""
WORDED_ITEMS: Final = 10
"""Most items of an array or a table in a sentence."""


def worded(value: object, quoted: bool = True) -> str:
    """Return a value for a sentence in the words of AMQP and JSON, whatever its Python type.

    Types without a form in JSON have their name in front: `decimal 1.5`, `timestamp 2026-01-01T00:00:00Z`, and `binary
    0x00ff` for bytes that are no text. A text is in quotes if `quoted`, and inside of an array or a table.
    """
    text = _worded(value, quoted)
    return text if len(text) <= WORDED_LETTERS else text[: WORDED_LETTERS - 3] + "..."


def _worded(value: object, quoted: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        octets = value[:WORDED_LETTERS]
        try:
            text = value[: 4 * WORDED_LETTERS].decode()
        except UnicodeDecodeError:
            return f"binary 0x{octets.hex()}"
        return _quoted(text, quoted) if text.isprintable() else f"binary 0x{octets.hex()}"
    if isinstance(value, str):
        return _quoted(value[: 4 * WORDED_LETTERS], quoted)
    if isinstance(value, float):
        return _number_word(value)
    if isinstance(value, list | tuple):
        items = [_worded(item, True) for item in value[:WORDED_ITEMS]]
        return f"[{', '.join([*items, '...'] if len(value) > WORDED_ITEMS else items)}]"
    if isinstance(value, dict):
        names = [*value][:WORDED_ITEMS]
        items = [f"{_worded(name, False)}: {_worded(value[name], True)}" for name in names]
        return f"{{{', '.join([*items, '...'] if len(value) > WORDED_ITEMS else items)}}}"
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 256 else "a number of more than 256 bits"
    return _worded_rarely(value)


def _worded_rarely(value: object) -> str:
    """Return a value of a type that JSON lacks; values of AMQP 1.0 write their type themselves."""
    from datetime import UTC, datetime  # Most starts do not need datetime.
    from decimal import Decimal

    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        return f"timestamp {moment.replace(tzinfo=None).isoformat()}Z"
    return f"decimal {value}" if isinstance(value, Decimal) else str(value)


def _quoted(text: str, quoted: bool) -> str:
    return f"'{printable(text)}'" if quoted else printable(text)


def _number_word(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (math.inf, -math.inf):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value)


def printable(text: str) -> str:
    """Return a text on one line without control characters, bidirectional marks and lone surrogates.

    These are written as in Python's literals: a line feed as \n, an escape as \x1b. Printable characters of any script
    are unchanged.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """Return a JSON text with the same value and no unprintable characters, except line feeds around values.

    `json.dumps` leaves DEL, C1 control characters and bidirectional marks in strings unchanged.
    """
    if text.isprintable():
        return text
    from json import dumps  # The client imports this module, and reads no JSON here.

    return "".join(each if each.isprintable() or each == "\n" else dumps(each)[1:-1] for each in text)


def amount(text: str, units: Mapping[str, int]) -> Fraction | None:
    """Return an amount with one of these units, whose case and spaces do not count; None for other texts."""
    match = AMOUNT.fullmatch(text)
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None:
        return None
    from fractions import Fraction  # Most starts do not need decimal.

    return Fraction(match[1]) * unit


def shown_bytes(number: int) -> str:
    """Return bytes exactly, in the largest unit that needs at most two decimals: 64 MiB, 3.2 MB."""
    for size, name in SHOWN_BYTES:
        if number >= size and number * 100 % size == 0:
            whole, hundredths = divmod(number * 100 // size, 100)
            return f"{whole}.{hundredths:02d}".rstrip("0").rstrip(".") + f" {name}"
    return f"{number} bytes"


def rounded_bytes(octets: float) -> str:
    """Return a number of bytes with one decimal: 12 B, 3.4 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(octets) < 1024:
            return f"{octets:.0f} {unit}" if unit == "B" else f"{octets:.1f} {unit}"
        octets /= 1024
    return f"{octets:.1f} TiB"


def shown_time(milliseconds: float) -> str:
    """Return a time in the largest unit that divides it: 30 min."""
    for size, name in SHOWN_TIMES:
        if milliseconds >= size and milliseconds % size == 0:
            return f"{int(milliseconds // size)} {name}"
    return f"{milliseconds:.10g} ms"


def shown_age(seconds: float | None) -> str:
    """Return a time for people: 9.5 s, 4 min 5 s, 3 h 12 min, 2 d 5 h; "-" for None."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def brief_age(seconds: float) -> str:
    """Return a time for people in one unit, or two from an hour on: 3.3 s, 18 s, 4 min, 3 h 12 min, 2 d 5 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return f"{max(int(seconds / 60), 1)} min" if seconds < 3600 else shown_age(seconds)


def counted(count: int, one: str) -> str:
    """Return a number with its noun: 1 message, 2 messages."""
    return f"1 {one}" if count == 1 else f"{count:,} {one}s"


def enumerated(names: Sequence[str]) -> str:
    """Return names in quotes: '1', '2' and '3'."""
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def shown_capacity(level: Mapping[str, int | None]) -> str:
    """Return a capacity as text: in messages, bytes or both."""
    parts = [
        shown_bytes(value) if unit == "bytes" else f"{value:,} {unit}"
        for unit, value in level.items()
        if value is not None
    ]
    return " and ".join(parts) or "no limit"


HELD_WORDS: Final[dict[str, str]] = {
    "own": "closed",
    "operator": "held by the operator",
    "exchange": "held by the operator",
    "virtual host": "held by its virtual host",
    "memory": "held by the memory",
    "disk": "held by the disk",
    "address": "held by its exchange",
}
"""Words for the first closed gate of a queue's road."""


def held_words(held_by: str) -> str:
    """Return the words for the first closed gate of a queue's road."""
    return HELD_WORDS.get(held_by, f"held by {held_by}")


def road_text(road: Mapping[str, Any]) -> str:
    """Return the state of a queue's road in words: open, closed, or by what the queue is held."""
    return "open" if road["open"] else held_words(str(road["held_by"]))


def shown_percent(value: float | None) -> str:
    """Return a percentage as text."""
    return "-" if value is None else f"{value:g} %"
