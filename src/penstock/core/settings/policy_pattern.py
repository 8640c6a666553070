"""The regular expression of a policy, matched in linear time by RE2.

An expression matches anywhere in a name unless it is anchored, as in RabbitMQ. RE2 has no look-ahead, but production
brokers have `^(?!amq\\.).*`. Look-aheads directly behind `^` are expressions of their own here, with the same meaning.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.errors import PreconditionFailed

PATTERN_OCTETS: Final = 4096
"""Longest expression."""
MEMORY_BYTES: Final = 256 * 1024
"""Memory of a compiled expression; RE2 refuses what needs more, and matches slower near the limit."""
CLASS_WORK: Final = 400
"""Units of work to compile a class of characters of Unicode."""


def compile_work(text: str) -> i64:
    """Return the units of work to compile an expression, about: most are those of Unicode's classes, such as `\\pL`."""
    if len(text) > PATTERN_OCTETS:
        return 1
    return 1 + len(text) // 2 + CLASS_WORK * (text.count("\\p") + text.count("\\P"))


class PolicyPattern:
    """A regular expression over names."""

    def __init__(self, text: str, caseless: bool = False) -> None:
        """Compile an expression, `caseless` or not. Raises PreconditionFailed (406) with RE2's reason."""
        if len(text.encode(errors="replace")) > PATTERN_OCTETS:
            raise PreconditionFailed(f"the pattern is longer than {PATTERN_OCTETS:,} octets")
        self.text = text
        self._needed: list[Any] = []
        self._excluded: list[Any] = []
        ahead, rest = look_aheads(text)
        for excludes, part in ahead:
            (self._excluded if excludes else self._needed).append(_compiled(text, f"^(?:{part})", caseless))
        self._needed.append(_compiled(text, rest, caseless))

    def matches(self, name: str) -> bool:
        """Return whether the expression matches a name."""
        octets = name.encode(errors="surrogateescape")
        for expression in self._needed:
            if not _found(expression, octets):
                return False
        for expression in self._excluded:
            if _found(expression, octets):
                return False
        return True


def look_aheads(text: str) -> tuple[list[tuple[bool, str]], str]:
    """Split an expression: the look-aheads behind its `^`, each with whether it excludes, and the rest.

    An expression that cannot be split stays whole.
    """
    found: list[tuple[bool, str]] = []
    if not text.startswith(("^(?!", "^(?=")):
        return found, text
    at = 1
    while text.startswith(("(?!", "(?="), at):
        end, _ = _scan(text, at + 1)
        if end < 0:
            return [], text
        found.append((text[at + 2] == "!", text[at + 3 : end]))
        at = end + 1
    rest = text[at:]
    _, alternates = _scan(rest, 0)
    if alternates:
        return [], text  # `^(?!a)b|c` is `(^(?!a)b)|c`.
    return found, "^" + rest


def _scan(text: str, start: int) -> tuple[int, bool]:
    """Return where the group ends that begins before `start`, and whether it has `|` outside of groups and classes.

    The end is the index of its parenthesis; -1 without one, as for a whole expression.
    """
    depth = 0
    alternates = False
    at = start
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
        elif letter == "[":
            at = _end_of_class(text, at)
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return at, alternates
        elif letter == "|" and depth == 0:
            alternates = True
        at += 1
    return -1, alternates


def _end_of_class(text: str, start: int) -> int:
    """Return the index of the bracket that closes a class of characters, or the end of the text."""
    at = start + 1
    if text.startswith("^", at):
        at += 1
    if text.startswith("]", at):
        at += 1
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at


def _compiled(text: str, expression: str, caseless: bool) -> Any:
    import re2  # Loaded with the first policy.

    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not caseless
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise PreconditionFailed(f"the pattern '{text}' is refused by RE2: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _found(expression: Any, octets: bytes) -> bool:
    return expression.search(octets) is not None
