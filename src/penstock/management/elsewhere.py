"""Elsewhere: the interfaces by which a broker of several has work done by the others.

A broker that is alone has neither: it answers all requests itself.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import mypyc_attr

from penstock.access.rules import ConnectionAccess
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.describe.table import Row
from penstock.flow.wait import Waits
from penstock.management.operation import Answer, Answered, Operation


@mypyc_attr(allow_interpreted_subclasses=True)
class Elsewhere:
    """Other brokers of a node, as one of its shards sees them."""

    def asks(self, row: Operation, request: ControlRequest) -> Waits[Answer] | None:
        """Return steps that wait for the answer of others; None if this broker answers. Raises BrokerError."""
        raise NotImplementedError

    def is_asking(self, connection: Connection) -> bool:
        """Return whether a connection waits for an answer of others."""
        raise NotImplementedError


class PartAnswer:
    """Answer of a shard to its part of an import."""

    def __init__(self, shard: str, answer: Answered, is_known: bool = True) -> None:
        self.shard = shard
        self.answer = answer
        self.is_known: bool = is_known
        """False if the shard has not answered, so that it may have imported its part, or some of it."""


class PartsWork:
    """Imports of the shards of a node."""

    def __init__(self) -> None:
        self.is_over: bool = False
        self.answers: list[PartAnswer] = []
        """Answers in the order of the shards."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ImportParts:
    """Shards of a node, as an import of definitions by the node's own broker sees them."""

    def begin(
        self,
        fields: Row,
        vhost: str,
        new_vhosts: list[str],
        access: ConnectionAccess | None,
        peer: str,
        asker: str,
        on_end: Callable[[], None],
    ) -> PartsWork:
        """Begin the imports of all shards, once they have the users and virtual hosts as they are now.

        `fields` are those of the request, in the virtual host `vhost`. A dry run has `new_vhosts`, which no shard has
        yet. `access`, `peer` and `asker` are the user, the address and the name; None for the files of the start.
        """
        raise NotImplementedError
