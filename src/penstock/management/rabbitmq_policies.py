"""RabbitMQ's policies and our settings by pattern of names: where one says the same as the other.

RabbitMQ's patterns are regular expressions, ours are words between dots with * and #. A policy there is a virtual
host's, the one with the highest priority alone counts; here a pattern counts in all virtual hosts, and the most
specific one wins, setting by setting.
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
"""Keys of policies that only choose where and how RabbitMQ stores a queue: there is one node here."""
FOR_QUEUES: Final = ("queues", "all", "classic_queues", "quorum_queues")
ALL: Final = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^.*$"})
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_:/@ -]|\\.)+")


def pattern_of(name: str, regex: str) -> str:
    """Return the pattern that matches what a policy's regular expression does.

    Raises PreconditionFailed (406) for what cannot be said with words, * and #. `^orders\\.` becomes `orders.#`, which
    matches `orders` as well.
    """
    if regex_of(name) == regex:
        return name  # It is one of ours, as it was exported.
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
            f"the pattern '{regex}' cannot be said with words, * and #; what can is "
            ".*, ^name$, ^word\\. and ^word\\.[^.]+$"
        )
    return re.sub(r"\\(.)", r"\1", body) + rest


def regex_of(pattern: str) -> str:
    """Return the regular expression that matches what one of our patterns does."""
    words = pattern.split(".")
    if all(word == "#" for word in words):
        return ".*"
    found = "^"
    for number, word in enumerate(words):
        if word == "#" and number and words[number - 1] == "#":
            continue  # Any number of words, twice, is any number of words.
        if word == "#":
            found += "(.*\\.)?" if number == 0 else "(\\..*)?"
            continue
        dot = "" if found in ("^", "^(.*\\.)?") else "\\."
        found += dot + ("[^.]+" if word == "*" else re.escape(word).replace("\\-", "-"))
    return found + "$"
