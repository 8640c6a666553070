"""Pauses of clients that have recorded more than their share of store writes (core/journal/write_shares.py).

A paused client is not read, and its jobs do no steps, until a transaction has taken enough of its records. Jobs without
a connection have one share together. While the store cannot be written no client is paused: persistent messages then
wait at a gate, and changes have a bound.
"""

from __future__ import annotations

from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.core.journal.journal import Journal
from penstock.core.journal.write_shares import WriteListener, WriteShare


class PausedConnection(WriteListener):
    """The pause of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.hold_input()

    @override
    def on_taken(self) -> None:
        self._connection.release_input()


class PausedJobs(WriteListener):
    """The pause of jobs. The next turn, after a transaction, checks them again."""

    @override
    def on_taken(self) -> None:
        pass


def pause_if_over(connection: Connection, share: WriteShare, journal: Journal) -> None:
    """Pause a connection if it is over its share, until the next transactions have taken enough of its records."""
    if journal.must_wait(share):
        journal.shares.wait(share, PausedConnection(connection))
