"""Exchange type x-federation-upstream, which RabbitMQ's federation declares at its upstream for each link.

A link of another broker binds such an exchange to the federated one, and its queue to this exchange. It routes to all
bindings, except messages that the other side would drop: those that were there, or have no hops left.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.received_from import may_go_on
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.routing.header_match import type_name
from penstock.errors import PreconditionFailed

MAX_HOPS: Final = "x-max-hops"
DOWNSTREAM_NAME: Final = "x-downstream-name"
DOWNSTREAM_VHOST: Final = "x-downstream-vhost"


class FederationUpstream(Exchange):
    """Exchange of a link at its upstream."""

    by_headers = True

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self.max_hops: int = 0
        self.cluster: str = ""
        self.downstream: str = ""
        """Name of the cluster, and virtual host, to which messages go; empty if unknown."""

    @override
    def set_arguments(self, arguments: dict[str, object]) -> None:
        hops = arguments.get(MAX_HOPS)
        if not isinstance(hops, int) or isinstance(hops, bool):
            given = f"must be a whole number, not a {type_name(hops)}" if MAX_HOPS in arguments else "is missing"
            raise PreconditionFailed(f"exchange '{self.name}' in vhost '{self.vhost}': argument {MAX_HOPS} {given}")
        cluster, vhost = arguments.get(DOWNSTREAM_NAME), arguments.get(DOWNSTREAM_VHOST)
        self.max_hops = hops
        self.cluster = cluster if isinstance(cluster, str) else ""
        self.downstream = vhost if isinstance(vhost, str) else ""
        super().set_arguments(arguments)

    @override
    def compared(self) -> tuple[str, ...]:
        return (*super().compared(), MAX_HOPS)

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        if not may_go_on(headers, self.max_hops, self.cluster, self.downstream):
            return 1
        if len(self.bindings) <= most:
            matched.extend(self.bindings.values())
        return len(self.bindings) + 1
