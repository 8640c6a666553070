"""A resolved change of settings: the objects that it concerns, with their new settings."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.topology import Topology
from penstock.core.settings.limits import Limits
from penstock.core.settings.policy import Policy


class SettingsChange:
    """The effects of a change, resolved and not yet applied."""

    def __init__(self) -> None:
        self.queues: list[tuple[Queue, Settings]] = []
        self.vhosts: list[tuple[Topology, Limits]] = []
        self.addresses: list[tuple[Topology, Exchange, Limits]] = []
        self.exchanges: list[tuple[Topology, Exchange, Policy | None]] = []
        """Exchanges with the policies that apply to them."""
        self.broker: Limits | None = None
        """None if the broker's own settings have not changed."""
        self.scopes: list[str] = []
        """The scopes with changes; users, connections and producers are known to the broker's gates."""
