"""The table of operations as octets that a client sends, and the permissions that each of its rows is tried with.

The objects are named as in the table: queue `q`, exchange `x` (a topic), destination `to`, dead-letter exchange `dead`,
alternate exchange `alt`, routing key `k`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pamqp import base, commands
from pamqp.frame import marshal

from tests.support.access_needs import AMQP_0_9_1
from tests.support.raw_client import publish_frames

NAMES = {
    "queue": "q",
    "exchange": "x",
    "destination": "to",
    "dead-letter exchange": "dead",
    "alternate exchange": "alt",
    "default exchange": "amq.default",
}
"""Names of the objects of needs."""
TOPICS = {"topic": "k", "topic of each copy": "copy"}
"""Routing keys of the objects of needs."""


@dataclass
class Grants:
    """The permissions of a user: an expression of each kind, and those of routing keys to exchange `x`."""

    configure: str
    write: str
    read: str
    topic_write: str
    topic_read: str


def grants(needs: Iterable[str], new: str = "") -> Grants:
    """Return the least permissions that fulfil these needs; `new` stands for the object that a row declares."""
    names: dict[str, list[str]] = {"configure": [], "write": [], "read": []}
    keys: dict[str, list[str]] = {"write": [], "read": []}
    for need in needs:
        kind, what = need.split(" ", 1)
        if what in TOPICS:
            keys[kind].append(TOPICS[what])
        else:
            names[kind].append(new if new and what in ("queue", "exchange") else NAMES[what])
    return Grants(*map(_expression, (*names.values(), *keys.values())))


def _expression(names: list[str]) -> str:
    """Return an expression for exactly these names; none for nothing."""
    return f"^({'|'.join(name.replace('.', '[.]') for name in names)})$" if names else ""


METHODS: dict[str, base.Frame] = {
    "channel.flow": commands.Channel.Flow(True),
    "exchange.declare": commands.Exchange.Declare(exchange="x", exchange_type="topic"),
    "exchange.declare, passive": commands.Exchange.Declare(exchange="x", passive=True),
    "exchange.declare, new with alternate-exchange": commands.Exchange.Declare(
        exchange="new", exchange_type="topic", arguments={"alternate-exchange": "alt"}
    ),
    "exchange.delete": commands.Exchange.Delete(exchange="x"),
    "exchange.bind": commands.Exchange.Bind(destination="to", source="x", routing_key="k"),
    "exchange.unbind": commands.Exchange.Unbind(destination="to", source="x", routing_key="k"),
    "queue.declare": commands.Queue.Declare(queue="q"),
    "queue.declare, passive": commands.Queue.Declare(queue="q", passive=True),
    "queue.declare, new with x-dead-letter-exchange": commands.Queue.Declare(
        queue="new", arguments={"x-dead-letter-exchange": "dead"}
    ),
    "queue.bind": commands.Queue.Bind(queue="q", exchange="x", routing_key="k"),
    "queue.unbind": commands.Queue.Unbind(queue="q", exchange="x", routing_key="k"),
    "queue.purge": commands.Queue.Purge(queue="q"),
    "queue.delete": commands.Queue.Delete(queue="q"),
    "basic.qos": commands.Basic.Qos(prefetch_count=1),
    "basic.consume": commands.Basic.Consume(queue="q"),
    "basic.consume, amq.rabbitmq.reply-to": commands.Basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True),
    "basic.cancel": commands.Basic.Cancel(consumer_tag="none"),
    "basic.get": commands.Basic.Get(queue="q"),
    "basic.recover": commands.Basic.Recover(requeue=True),
    "confirm.select": commands.Confirm.Select(),
    "tx.select": commands.Tx.Select(),
}
"""Methods of rows, which channel 1 sends."""
PUBLISHES: dict[str, bytes] = {
    "basic.publish": publish_frames(1, "x", "k", b"m"),
    "basic.publish, with CC or BCC": publish_frames(1, "x", "k", b"m", {"headers": {"BCC": ["copy"]}}),
}
"""Publishes of rows."""
NEW = {row: "new" for row in AMQP_0_9_1 if ", new with " in row}
"""Names that rows declare."""
ELSEWHERE = {
    "connection.open": "test_virtual_host_without_a_permission_is_530",
    "connection.update-secret": "a secret is no permission: tests/protocols/amqp091/test_handshake.py",
    "channel.open": "each row opens one",
    "channel.close": "each row may close one",
    "channel.flow-ok": "an answer",
    "access.request": "AMQP 0-8, whose answer means nothing",
    "basic.ack": "it needs a delivery, and so the permission to read",
    "basic.nack": "it needs a delivery, and so the permission to read",
    "basic.reject": "it needs a delivery, and so the permission to read",
    "basic.recover-async": "basic.recover without an answer",
    "tx.commit": "what is committed was checked when it was published",
    "tx.rollback": "nothing is published",
}
"""Rows that are not sent here, with the reason."""


def octets_of(row: str) -> bytes:
    """Return what a client sends on channel 1 for a row of AMQP 0-9-1."""
    return PUBLISHES[row] if row in PUBLISHES else marshal(METHODS[row], 1)


def rows() -> list[str]:
    """Return the rows of AMQP 0-9-1 that are sent."""
    return [row for row in AMQP_0_9_1 if row not in ELSEWHERE]


def cells() -> list[tuple[str, str]]:
    """Return each row with each of its needs: the one that is missing."""
    return [(row, need) for row in rows() for need in AMQP_0_9_1[row]]


def refusal_of(row: str, need: str) -> str:
    """Return how RabbitMQ 4 refuses a row whose need is missing."""
    kind, what = need.split(" ", 1)
    if what in TOPICS:
        return f"{kind} access to topic '{TOPICS[what]}' in exchange 'x' in vhost '/' refused for user"
    name = NEW[row] if row in NEW and what in ("queue", "exchange") else NAMES[what]
    return f"{kind} access to {'queue' if what == 'queue' else 'exchange'} '{name}' in vhost '/' refused for user"
