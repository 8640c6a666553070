"""Limits of connections that differ from the defaults."""

from __future__ import annotations

from typing import Any

from penstock.connections.connection_limits import ConnectionLimits
from penstock.settings.start import Start


def limits(**values: Any) -> ConnectionLimits:
    """Return limits of which these are set."""
    return ConnectionLimits(Start(**values))
