"""Creation of queues that an attach names, where the setting `auto-create` of their names asks for it (Artemis)."""

from __future__ import annotations

from penstock.core.settings.policies import CLASSIC
from penstock.core.vhost import VirtualHost
from penstock.protocols.amqp10.addresses import Address
from penstock.protocols.common.authorization import check_declare_queue
from penstock.protocols.common.connection import Connection


def create_missing_queue(vhost: VirtualHost, address: Address, asker: Connection) -> None:
    """Create the queue of an address that names nothing yet, durable, if its settings say so. Raises BrokerError."""
    for node in address.nodes:
        if vhost.default_route(node.queue) is not None if node.queue else node.exchange in vhost.exchanges:
            return
    for node in address.nodes:
        if node.queue and vhost.table.queue(vhost.name, node.queue, {}, CLASSIC).auto_create:
            check_declare_queue(asker.access, vhost, node.queue, {})
            vhost.declare_queue(node.queue, {}, True, False, None, asker)
            return
