"""Limits of connections that differ from the defaults."""

from __future__ import annotations

from penstock.connections.connection_limits import ConnectionLimits


def limits(**values: object) -> ConnectionLimits:
    """Return limits of which these are set."""
    found = ConnectionLimits()
    for name, value in values.items():
        assert hasattr(found, name), name
        setattr(found, name, value)
    return found
