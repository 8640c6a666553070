"""Command: a row with the command-line form of an operation, and the printed parts of its answer.

These rows import nothing of the broker: with it a command would start in three times the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from penstock.errors import ConfigError
from penstock.settings.kind import COUNT, INTEGER
from penstock.texts import shown_bytes, shown_time

Given = Mapping[str, Any]
"""Values of the fields of a command, by name."""
Answer = dict[str, Any]
Item = dict[str, Any]
Value = Callable[[Item], object]
Says = Callable[[Given, Answer], Iterable[str]]
_INTEGER: Final = re.compile(r"-?\d{1,18}")


VHOST: Final = "the virtual host of --url"
EITHER: Final = "the virtual host of --url, or all with --everywhere"
BROKER: Final = "the whole broker"
"""Places in which a command acts."""


class Field(NamedTuple):
    """Field of a request: an argument, or an option if it has a help."""

    name: str
    help: str = ""
    kind: Any = str
    """Kind of its value, or a type: str, Path, bool for an option without a value. In `penstock.cli` also a type of
    click.
    """
    default: Any = None
    """Value of an option that is not given; `...` if it must be."""
    option: str = ""
    """Spellings of an option, if they are others than its name."""
    metavar: str = ""
    many: bool = False
    """True for all words that follow, or for an option that may be given several times."""
    required: bool = True
    choices: tuple[str, ...] = ()
    names: str = ""
    """Kind of names of the broker that complete it."""
    read: Callable[[tuple[str, ...]], Any] | None = None
    """Function that returns the value of words; raises ConfigError."""
    hidden: bool = False


class Absent(NamedTuple):
    """Sentence and JSON for an object that is not there, with --if-exists."""

    says: str
    answer: Callable[[Given], Answer]


class Command(NamedTuple):
    """Operation at the command line. Texts in braces are fields of the request and of the answer."""

    path: str
    """Group and verb: "queues purge"."""
    asks: str
    """Operation of the control exchange, or method of AMQP 0-9-1."""
    help: str
    fields: tuple[Field, ...] = ()
    says: str | Says = ""
    """Sentences for people; raises ConfigError for an answer that is a failure."""
    request: Callable[[Given], tuple[str, Answer]] | None = None
    """Function that returns operation and fields; None: those of the row. Raises ConfigError."""
    fixed: Mapping[str, object] = {}
    """Fields that the command stands for."""
    answer: Callable[[Given, Answer], object] | None = None
    """Function that returns what --json prints; None: the answer of the broker."""
    absent: Absent | None = None
    first: str = ""
    """Method that must succeed before, passively."""
    then: Callable[[Given], tuple[str, Answer]] | None = None
    """Function that returns an operation whose answer is added afterwards, if the user may ask it; None: none."""
    ends: str = ""
    """Reason with which the broker closes this connection if the operation succeeds; "": it stays open."""
    remarks: Callable[[Given], Iterable[str]] | None = None
    """Function that returns sentences for standard error."""
    where: str = VHOST
    """Place in which it acts, if it has no option for that."""


class Columns(NamedTuple):
    """Columns of a kind of list: those that are shown, paths or functions of computed ones, and texts of values."""

    default: tuple[str, ...]
    computed: Mapping[str, Value | str] = {}
    texts: Mapping[str, Callable[[Any], str]] = {}
    of_items: Mapping[str, Callable[[Item], str]] = {}
    """Texts that take more of an item than the value."""
    orders: Mapping[str, str] = {}
    """Paths of the numbers by which columns of words are sorted."""


class Listing(NamedTuple):
    """List at the command line."""

    path: str
    asks: str
    help: str
    columns: Columns
    key: str
    """Name of the items in an answer."""
    fields: tuple[Field, ...] = ()
    fixed: Mapping[str, object] = {}
    request: Callable[[Given], tuple[str, Answer]] | None = None
    rows: Callable[[list[Item]], list[Item]] | None = None
    """Function that returns rows of items; None: they are the same."""
    raw: bool = False
    """True if --json has the items and not the rows."""
    whole: str | None = None
    """Name of the one list that --json prints; "" for a list without an object; None: one object per line."""
    as_object: Callable[[list[Item]], Answer] | None = None
    """Function that makes the one object that --json prints of whole rows."""
    where: str = VHOST
    """Place that it looks at, if it has no option for that."""


def acts_in(row: Command | Listing) -> str:
    """Return the place in which a command acts: in several virtual hosts only with the option for that."""
    return EITHER if any(field.name == "everywhere" and not field.hidden for field in row.fields) else row.where


# Words of a command line


def named(words: tuple[str, ...], example: str = "", noun: str = "") -> dict[str, str]:
    """Parse NAME=VALUE words; errors show the example and the noun. Raises ConfigError."""
    fields: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{word}' is not NAME=VALUE{example}")
        if name in fields:
            raise ConfigError(f"{noun}'{name}' is given twice: give it once")
        fields[name] = value
    return fields


def pairs(words: tuple[str, ...]) -> dict[str, object]:
    """Parse NAME=VALUE words: digits are an integer, true and false a boolean, the rest text. Raises ConfigError."""
    constants: dict[str, object] = {"true": True, "false": False}
    return {
        name: int(value) if _INTEGER.fullmatch(value) else constants.get(value, value)
        for name, value in named(words).items()
    }


def definition(words: tuple[str, ...]) -> dict[str, object]:
    """Return the definition of a policy, given as a JSON object or as words. Raises ConfigError."""
    if not words[0].lstrip().startswith("{"):
        return pairs(words)
    try:
        fields = json.loads(words[0])
    except ValueError as error:
        raise ConfigError(f"the definition is not JSON: {error}") from None
    if len(words) > 1 or not isinstance(fields, dict):
        raise ConfigError("the definition must be one JSON object, or KEY=VALUE words")
    return fields


def limit_numbers(words: tuple[str, ...]) -> dict[str, int]:
    """Parse LIMIT=NUMBER words. Raises ConfigError."""
    limits: dict[str, int] = {}
    for name, value in named(words, ": write LIMIT=NUMBER, such as max-connections=10", "limit ").items():
        number: object = INTEGER.parse(value)
        if not isinstance(number, int):
            raise ConfigError(INTEGER.fault(f"limit {name}", value))
        limits[name] = number
    return limits


def places(words: tuple[str, ...]) -> str | dict[str, int]:
    """Return where to move or begin a cursor; raises ConfigError."""
    if not words:
        return "earliest"
    if len(words) == 1 and words[0] in ("earliest", "latest"):
        return words[0]
    places: dict[str, int] = {}
    for word in words:
        queue, equals, number = word.rpartition("=")
        if not equals or not queue:
            raise ConfigError(f"'{word}' is no place: write earliest, latest or QUEUE=SEQUENCE, such as orders=1200")
        if queue in places:
            raise ConfigError(f"queue '{queue}' is given twice: give it once")
        sequence: object = COUNT.parse(number)
        if not isinstance(sequence, int):
            raise ConfigError(COUNT.fault(f"the sequence of queue '{queue}'", number))
        places[queue] = sequence
    return places


# Values


def setting_value(row: Item) -> str:
    """Return a value with its unit; one that a stronger source hides is in parentheses."""
    value, unit = row["value"], row.get("unit", "")
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit == "ms":
            text = shown_time(value)
        elif unit == "s":
            text = shown_time(round(value * 1000, 3))
        elif unit == "bytes":
            text = shown_bytes(value) if isinstance(value, int) else f"{value} bytes"
    return f"({text})" if row.get("hidden") else text
