"""The table of docs/logs.md: every error that a client is told, with its name in each protocol."""

from __future__ import annotations

from penstock.errors import CODES, BrokerError
from penstock.protocols.amqp091.methods import Malformed
from penstock.protocols.amqp10.error_scopes import MalformedMessage, MalformedPerformative
from tests.support.generated_parts import table

FROM_CODEC = (Malformed, MalformedPerformative, MalformedMessage)
"""Errors whose code or condition the codec chooses."""


def tables() -> dict[str, str]:
    """Return the table by its name."""
    ours = [error for error in BrokerError.__subclasses__() if error.__module__.startswith("penstock.")]
    rows = [
        (
            *(f"`{error.__name__}`", str(error.code), CODES[error.code].name, error.closes),
            *(error("").condition, error.ends, str(CODES[error.code].http_status)),
        )
        for error in sorted(ours, key=lambda each: each.code)
        if error not in FROM_CODEC
    ]
    return {"errors": table(("error", "code", "name", "closes", "condition", "ends", "HTTP"), *rows)}
