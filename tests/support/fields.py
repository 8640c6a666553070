"""Attributes of an object, of a class that may be compiled: those have no `__slots__`."""

from __future__ import annotations


def fields_of(subject: object) -> dict[str, object]:
    """Return the public attributes that are no methods, by name."""
    names = [name for name in dir(subject) if not name.startswith("_")]
    found = {name: getattr(subject, name) for name in names}
    assert found
    return {name: value for name, value in found.items() if not callable(value)}
