"""Words that complete arguments and that tables have: settings with their values, limits, and tags."""

from __future__ import annotations

from typing import Final

from penstock.settings.kind import Choices, Flag

SETTINGS_OF: Final = "settings of "
"""Beginning of the kind of words of a scope: NAME=VALUE."""
NAMES_OF: Final = "names of settings of "
"""Beginning of the kind of words of a scope: names alone."""
LIMITS: Final = "limits"
TAGS: Final = "tags"
OTHERS: Final = "x-"
"""Beginning of names in other brokers, which are offered once they are begun."""


def words_of(kind: str, incomplete: str) -> list[str] | None:
    """Return the words of a kind with this beginning; None for a kind of names of the broker."""
    if kind.startswith(SETTINGS_OF):
        return settings_of(kind.removeprefix(SETTINGS_OF), incomplete)
    if kind.startswith(NAMES_OF):
        found = settings_of(kind.removeprefix(NAMES_OF), incomplete)
        return [] if "=" in incomplete else [word.removesuffix("=") for word in found]
    if kind == LIMITS:
        return _begun(("max-connections=", "max-channels=", "max-queues="), incomplete)
    if kind == TAGS:
        from penstock.access.permission import TAGS as tags

        return _begun(tags, incomplete)
    return None


def settings_of(scope: str, incomplete: str) -> list[str]:
    """Return the settings of a scope as NAME=, and behind a name that has a choice of values, NAME=VALUE."""
    from penstock.settings.table import ALIASES, SETTINGS

    name, equals, begun = incomplete.partition("=")
    if not equals:
        names = [each.name for each in SETTINGS if scope in each.scopes.split()]
        if scope == "queue" and incomplete.startswith(OTHERS):
            names = [*ALIASES]
        return _begun([f"{each}=" for each in names], incomplete)
    own = ALIASES.get(name, name)
    kind = next((each.kind for each in SETTINGS if each.name == own and scope in each.scopes.split()), None)
    values = ["true", "false"] if isinstance(kind, Flag) else [*kind.words] if isinstance(kind, Choices) else []
    return [f"{name}={value}" for value in _begun(values, begun)]


def _begun(words: tuple[str, ...] | list[str], begin: str) -> list[str]:
    return [word for word in words if word.startswith(begin)]
