"""Answers from elsewhere: at the port of a node with shards, requests are answered by the shards that they are about.

The HTTP API of a broker has none of this (`Service.elsewhere` is None).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.connections.control_request import ControlRequest
from penstock.management.operation import Answer, Operation, Route

if TYPE_CHECKING:
    from starlette.responses import Response

    from penstock.server.http.console.hub import Maps
    from penstock.server.http.request import ApiRequest


class Joined(NamedTuple):
    """Answer made of those of several shards."""

    answer: Answer
    missing: list[tuple[str, str]]
    """Shards that did not answer, each with the reason."""
    is_job: bool = False
    """True if the answer is the row of a job that continues."""


class HttpElsewhere:
    """Way to the shards of a node."""

    async def passed(self, request: ApiRequest, operation: Operation, route: Route) -> Response | None:
        """Return the answer of the one shard that the path tells; None if the path does not.

        Raises HttpError.
        """
        raise NotImplementedError

    async def answer(
        self, request: ApiRequest, operation: Operation, route: Route, asked: ControlRequest
    ) -> Response | Joined | None:
        """Return the answer to a request whose fields are known; None if this process answers it.

        Raises HttpError, BrokerError.
        """
        raise NotImplementedError

    async def settled(self) -> None:
        """Wait until the shards have the changes of users, permissions and virtual hosts, for some time at most."""
        raise NotImplementedError

    def maps(self, request: ApiRequest) -> Maps:
        """Return the flow maps of all shards, for the user of a request."""
        raise NotImplementedError
