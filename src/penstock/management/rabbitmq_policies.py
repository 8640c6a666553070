"""Conversion between RabbitMQ's policies and settings by name pattern, as far as they are equivalent.

RabbitMQ's patterns are regular expressions; ours are words between dots with * and #. A policy belongs to a virtual
host, and only the one with the highest priority applies. Our patterns apply to all virtual hosts, and for each setting
the most specific pattern applies.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import PreconditionFailed

NO_MATTER: Final = frozenset(
    {
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-sync-batch-size",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "queue-mode",
        "queue-version",
        "queue-master-locator",
        "queue-leader-locator",
        "initial-cluster-size",
    }
)
"""Keys of policies that only choose where and how RabbitMQ stores a queue: ignored on one node."""
FOR_QUEUES: Final = ("queues", "all", "classic_queues", "quorum_queues")
ALL: Final = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^.*$"})
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_:/@ -]|\\.)+")


def pattern_of(name: str, regex: str) -> str:
    r"""Return the pattern equivalent to a policy's regular expression.

    Raises PreconditionFailed (406) for expressions that words, * and # cannot represent. `^orders\.` becomes
    `orders.#`, which also matches `orders`.
    """
    if regex_of(name) == regex:
        return name  # One of ours, as exported.
    if regex in ALL:
        return "#"
    body = regex.removeprefix("^")
    rest = ""
    for tail, ours in (("(\\..*)?$", ".#"), ("\\..*$", ".#"), ("\\..*", ".#"), ("\\..+$", ".#"), ("\\.", ".#"),
                       ("\\.[^.]+$", ".*"), ("$", "")):  # fmt: skip
        if body.endswith(tail):
            body = body[: len(body) - len(tail)]
            rest = ours
            break
    else:
        body = ""
    if not regex.startswith("^") or not _LITERAL.fullmatch(body):
        raise PreconditionFailed(
            f"the pattern '{regex}' has no equivalent in words, * and #; supported are "
            ".*, ^name$, ^word\\. and ^word\\.[^.]+$"
        )
    return re.sub(r"\\(.)", r"\1", body) + rest


def regex_of(pattern: str) -> str:
    """Return the regular expression equivalent to one of our patterns."""
    words = pattern.split(".")
    if all(word == "#" for word in words):
        return ".*"
    found = "^"
    for number, word in enumerate(words):
        if word == "#" and number and words[number - 1] == "#":
            continue  # Repeated # is equivalent to one.
        if word == "#":
            found += "(.*\\.)?" if number == 0 else "(\\..*)?"
            continue
        dot = "" if found in ("^", "^(.*\\.)?") else "\\."
        found += dot + ("[^.]+" if word == "*" else re.escape(word).replace("\\-", "-"))
    return found + "$"
