"""Keys of the parameters of bridges: rows with kind and meaning, and the check of a value by its rows.

A key that is accepted and not served has a sentence in its row, which lists and imports report for each use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PreconditionFailed
from penstock.management.bridge_uris import read_uris
from penstock.settings.kind import INVALID, OBJECT, Kind, Text, unknown_name

NAME: Final[Text] = Text(1, 255)
ROUTING_KEY: Final[Text] = Text(0, 255)


@dataclass(frozen=True)
class Key:
    """Key of a parameter."""

    name: str
    kind: Kind
    meaning: str
    """Effect of the key, as a sentence for the documentation."""
    older: tuple[str, ...] = ()
    """Names of earlier versions; the present name wins over them."""
    words: tuple[str, ...] = ()
    """Texts that are valid besides values of the kind."""
    default: str | float | bool | None = None
    """Value without the key; None for none."""
    protocols: tuple[str, ...] = ()
    """Protocols of the key's end with which it is valid; none for all."""
    is_uri: bool = False
    """True if the value is a URI or a list of them."""
    inner: tuple[Key, ...] = ()
    """Keys of the object that is the value; none if all keys are valid."""
    not_served: str = ""
    """Reason why the key has no effect here; "" for a key that has its effect."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the key, the present one first."""
        return (self.name, *self.older)


def check_keys(title: str, owner: str, keys: Iterable[Key], value: object) -> dict[str, object]:
    """Check the value of a parameter and return it.

    Raises PreconditionFailed (406) with the key, the value and the rule; values that may have secrets are not quoted.
    """
    if not isinstance(value, dict):
        raise PreconditionFailed(f"{title}: {OBJECT.fault('the value', value, True)}")
    by_name = {name: key for key in keys for name in key.names}
    for name, given in value.items():
        key = by_name.get(name)
        if key is None:
            raise PreconditionFailed(f"{title}: {unknown_name(owner, 'key', name, by_name)}")
        check_value(title, key, name, given)
    return value


def check_value(title: str, key: Key, name: str, given: object) -> None:
    """Check the value of one key. Raises PreconditionFailed (406)."""
    if key.is_uri:
        read_uris(f"{title}: '{name}'", given)
    elif key.inner:
        check_keys(f"{title}: {name}", f"'{name}'", key.inner, given)
    elif given not in key.words and key.kind.parse(given, True) is INVALID:
        raise PreconditionFailed(f"{title}: {key.kind.fault(name, given)}")


def canonical(keys: Iterable[Key], value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value under the present names of its keys, with the defaults of those that are not given.

    Values of other kinds, which a store of an earlier version may have, become the defaults; other keys are left out.
    """
    found: dict[str, Any] = {}
    for key in keys:
        name = next((name for name in key.names if name in value), None)
        given = None if name is None else value[name]
        is_fit = key.is_uri or given in key.words or key.kind.parse(given, True) is not INVALID
        if given is not None and is_fit:
            found[key.name] = given
        elif key.default is not None:
            found[key.name] = key.default
    return found


def without_effect(keys: Iterable[Key], value: object) -> list[str]:
    """Return a sentence for each key of a value that has no effect here."""
    if not isinstance(value, dict):
        return []
    return [
        f"{name} has no effect: {key.not_served}"
        for key in keys
        for name in key.names
        if key.not_served and name in value
    ]
