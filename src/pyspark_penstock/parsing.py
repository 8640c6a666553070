"""Kinds of option values: those of Penstock's settings, and texts that only Spark's options have; without I/O.

A parser takes the text of one option and raises ``ValueError`` with the second half of a sentence ("must be
host:port"); its kind prefixes option and value.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from penstock.settings.kind import INVALID, NO_UNIT, Number, Parsed, Text
from penstock.settings.lengths import NAME_MAX

DEFAULT_PORT = 5672  # IANA's port for AMQP, in every version.

NAME: Final = Text(1, NAME_MAX)
"""Name of a queue, an exchange, a cursor or a routing key."""
SECRET: Final = Text(secret=True)


@dataclass(frozen=True, order=True, slots=True)
class Address:
    """Address of one broker."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def duration(most_ms: int, least_ms: int = 0) -> Number:
    """Return the kind of a time in milliseconds that has a unit: the same number means seconds to one reader, and
    milliseconds to another.
    """
    return Number("ms", least_ms, most_ms, bare=NO_UNIT)


def parsed(function: Callable[[str], Any]) -> Parsed:
    """Return the kind of a text that a function reads; what stands before an @ may be a password."""
    return Parsed(function, masked=_without_secrets)


def _without_secrets(text: str) -> str:
    return re.sub(r"[^\s,/]*@", "***@", text)


def identifier(most: int) -> Callable[[str], str]:
    """Return a parser of printable ASCII texts of 1 to `most` characters."""

    def parse(text: str) -> str:
        if not 1 <= len(text) <= most or not text.isascii() or not text.isprintable():
            raise ValueError(f"must have 1 to {most} printable ASCII characters")
        return text

    return parse


def names(text: str) -> tuple[str, ...]:
    """Return a comma-separated list of different names, in the order given."""
    found = tuple(part.strip() for part in text.split(","))
    for name in found:
        if NAME.parse(name) is INVALID:
            raise ValueError(f"must be names, each {NAME.rule(name)}")
    if len(set(found)) < len(found):
        raise ValueError("names a queue twice")
    return found


def addresses(text: str) -> tuple[Address, ...]:
    """Return a comma-separated list of ``host:port`` (IPv6 in brackets; the port defaults to 5672)."""
    found = tuple(_address(part.strip()) for part in text.split(","))
    if len(set(found)) < len(found):
        raise ValueError("names a server twice")
    return found


def _address(text: str) -> Address:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@\[\]]+))(?::(\d{1,5}))?", text)
    port = int(match[3] or DEFAULT_PORT) if match else 0
    if match is None or not 1 <= port <= 65535:
        raise ValueError(
            "must be host:port, several of them separated by commas (vhost, user and password are options)"
        )
    return Address(match[1] or match[2], port)


def regular_expression(text: str) -> str:
    """Return a regular expression of Python that queue names must match as a whole."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression, as Python reads it: {error}") from None
    if not text:
        raise ValueError("must not be empty")
    return text


def assigned(text: str) -> tuple[tuple[Address, tuple[str, ...]], ...]:
    """Return the queues of each server, from JSON such as ``{"a:5672": ["orders"], "b:5672": ["audit"]}``."""
    given = _json(text)
    if not isinstance(given, dict) or not given or not all(isinstance(queues, list) for queues in given.values()):
        raise ValueError(_ASSIGN)
    if all(type(partition) is int for partitions in given.values() for partition in partitions):
        raise ValueError(f"{_NO_PARTITIONS} subscribe = '{','.join(given)}'")
    found = []
    for server, queues in given.items():
        if not queues or not all(isinstance(queue, str) for queue in queues):
            raise ValueError(_ASSIGN)
        found.append((_address(server.strip()), names(",".join(queues))))
    if len({server for server, _ in found}) < len(found):
        raise ValueError("names a server twice")
    return tuple(found)


_ASSIGN = 'must be JSON such as {"broker:5672": ["orders", "audit"]}: queues by server; they have no partitions'
_NO_PARTITIONS = "names partitions, as for Kafka; Penstock has no partitions: write"

Start = int | str
"""Start of a queue: a sequence, ``earliest`` or ``latest``."""

_KAFKA = {-1: "latest", -2: "earliest"}


def starting(text: str) -> str | dict[str, Start | dict[Address, Start]]:
    """Return the start of queues that are new to a cursor.

    ``earliest``, ``latest`` (in any case), or JSON by queue: ``{"queue": sequence}``, or ``{"queue": {"host:port":
    sequence}}`` with several servers. -1 is the latest and -2 the earliest, as in Spark's Kafka source.
    """
    if text.lower() in _ENDS:
        return text.lower()
    given = _json(text)
    if not isinstance(given, dict):
        raise ValueError(_STARTING)
    found: dict[str, Start | dict[Address, Start]] = {}
    for queue, value in given.items():
        if isinstance(value, dict) and value and all(re.fullmatch(r"\d+", key) for key in value):
            found[queue] = _of_partitions(queue, value)
        elif isinstance(value, dict):
            found[queue] = {_address(server.strip()): _start(queue, each) for server, each in value.items()}
        else:
            found[queue] = _start(queue, value)
    return found


_ENDS = ("earliest", "latest")


def _of_partitions(queue: str, partitions: dict[str, object]) -> Start:
    """Return the start that Kafka's JSON sets for all partitions of a topic: the earliest or the latest."""
    ends = list(partitions.values())
    if type(ends[0]) is int and ends[0] in _KAFKA and ends.count(ends[0]) == len(ends):
        return _KAFKA[ends[0]]
    example = json.dumps({queue: ends[0] if type(ends[0]) is int and ends[0] >= 0 else 1200}, ensure_ascii=False)
    raise ValueError(f"{_NO_PARTITIONS} {example}, with the sequence of the queue after which to begin")


_STARTING = 'must be earliest, latest, or JSON such as {"orders": 1200} with sequences from 0 up'


def _start(queue: str, value: object) -> Start:
    if type(value) is int and value in _KAFKA:
        return _KAFKA[value]
    if isinstance(value, str) and value.lower() in _ENDS:
        return value.lower()
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"gives {value!r} for '{queue}'; {_STARTING}, -1 for the latest or -2 for the earliest")
    return value


def instant(text: str) -> int:
    """Return a time in microseconds since the epoch.

    The text is in milliseconds since the epoch, as in Spark's Kafka source, or in ISO 8601 with an offset.
    """
    if re.fullmatch(r"\d{1,15}", text):
        return int(text) * 1_000
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or time.timestamp() < 0:
        raise ValueError(
            "must be milliseconds since 1970, or a time with its offset such as 2026-11-22T10:00:00Z or ...+01:00"
        )
    return (time - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown_instant(microseconds: int) -> str:
    """Return a time as text, in UTC."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
