"""SQL filters of a source (AMQP Filter Expressions 1.0, as RabbitMQ 4.2 has them), as conditions of a selector.

The syntax is near to that of selectors. Names have the section of the message before a dot (`p.subject`, `h.priority`,
`a.region`), or are application properties. A name with other characters is in brackets, and a text may be in double
quotes. The filter becomes a condition of the selector, so index, subscriptions and bounds are those of selectors. A
filter that is not valid, or that no selector can say, is left out of the broker's attach: so are `UTC()`, `%`, and
binary values except for the user id.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.content.selector.fields import AMQP, EXCLUDED, FIELDS
from penstock.content.selector.selector import LENGTH_MAX, LETTERS_A_UNIT, parse_selector
from penstock.errors import InvalidField
from penstock.flow.work import WorkMeter

SQL: Final = ("amqp:sql-filter", 0x120)
"""Descriptors of the filter, as a symbol and as a number."""

_HEADER: Final = ("header", "h")
_PROPERTIES: Final = ("properties", "p")
_APPLICATION: Final = ("application_properties", "a")
_WORDS: Final = frozenset(("AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "ESCAPE", "TRUE", "FALSE"))
"""Words that cannot be names; only in upper case."""
_USER_ID: Final = AMQP + "user_id"
_COMPARISONS: Final = (f"{_USER_ID}=", f"{_USER_ID}<>")
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*' | "(?:[^"]|"")*")
    | (?P<binary>0x(?:[0-9A-Fa-f]{2})+)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>(?:[^\W\d][\w$]*\.)? (?:[^\W\d][\w$]* | \[[^\]]+\]))
    | (?P<symbol><>|!=|<=|>=|[=<>+*/(),-])
    )""",
    re.VERBOSE,
)


def condition_of_sql(value: object, work: WorkMeter) -> str | None:
    """Return the condition of a filter as the text of a selector; None for a filter that is left out."""
    if not isinstance(value, str) or len(value) > LENGTH_MAX:
        return None
    work.count(2 * len(value) // LETTERS_A_UNIT)
    condition = _translated(value)
    try:
        parsed = None if condition is None else parse_selector(condition)
    except InvalidField:
        return None
    return None if parsed is None else f"({condition})"


def _translated(text: str) -> str | None:
    """Return a filter in the syntax of selectors; None if selectors cannot say it. The parser checks the rest."""
    parts: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        part = _part(str(found.lastgroup), str(found.group(str(found.lastgroup))), "".join(parts[-2:]))
        if part is None:
            return None
        parts.append(part)
        at = found.end()
        if at < end and found.lastgroup in ("binary", "number", "name") and (text[at].isalnum() or text[at] in "_.["):
            return None  # Such as 12abc, or a.b.c.
    return " ".join(parts)


def _part(kind: str, token: str, before: str) -> str | None:
    """Return a token in the syntax of selectors; `before` are the two parts before it."""
    if kind == "text":
        quote = token[0]
        return _quoted(token[1:-1].replace(quote + quote, quote), "'")
    if kind == "binary":
        return _binary(token) if before in _COMPARISONS else None
    if kind == "number":
        digits = token.lstrip("0")
        return digits if digits[:1].isdigit() else f"0{digits}"
    if kind == "name":
        return token if token in _WORDS else _name(token)
    return "<>" if token == "!=" else token


def _binary(token: str) -> str | None:
    try:
        return _quoted(bytes.fromhex(token[2:]).decode(), "'")
    except UnicodeDecodeError:
        return None


def _name(token: str) -> str | None:
    """Return the name of a field in a selector; None for a part of the message that selectors do not read."""
    section, name = "", token
    if token[0] != "[" and "." in token:
        section, _, name = token.partition(".")
    if name[0] == "[":
        name = name[1:-1]
    if section in _HEADER:
        return AMQP + name if name == "priority" else None
    if section in _PROPERTIES:
        field = AMQP + name
        return field if field in FIELDS and name not in ("priority", "delivery_mode", "jms_type") else None
    if (section and section not in _APPLICATION) or name in FIELDS or name in EXCLUDED or name.startswith(AMQP):
        return None
    return _quoted(name, '"')


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote + quote) + quote
