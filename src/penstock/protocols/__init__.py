"""Protocols of the broker: the only place that names them. A new one is a folder here and an entry in this list."""

from __future__ import annotations

from penstock.connections.engine import Protocol


def standard_protocols() -> list[Protocol]:
    """Return the protocols that every listener speaks; the header of the first answers unknown bytes."""
    # Imported here: the parts that all protocols share (connections) are below them and in this package too.
    from penstock.protocols.amqp091.engine import Amqp091
    from penstock.protocols.amqp10.engine import Amqp10

    return [Amqp091(), Amqp10()]
