"""Elsewhere: the interface by which a broker of several has an operation answered by the one that has its subject."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.connections.control_request import ControlRequest
from penstock.flow.wait import Waits
from penstock.management.operation import Answer, Operation


@mypyc_attr(allow_interpreted_subclasses=True)
class Elsewhere:
    """Other brokers of a node, as one of its shards sees them."""

    def asks(self, row: Operation, request: ControlRequest) -> Waits[Answer] | None:
        """Return steps that wait for the answer of others; None if this broker answers. Raises BrokerError."""
        raise NotImplementedError
