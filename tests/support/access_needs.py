"""Operations of the protocols and what each of them needs: tables of docs/inside/access.md that tests run.

A need of a permission is a kind (configure, write or read) and an object. It is checked where the operation is carried
out (connections/authorization.py). A need of a tag is checked before, by this table. The rules are those of
RabbitMQ 4 (its guides "Access control", "Topic authorisation" and "Management"), and so are the paths of HTTP.
"""

from __future__ import annotations

from typing import Final

NOTHING: Final[tuple[str, ...]] = ()
"""Needs of an operation that every user of the virtual host may do."""

_DECLARE_QUEUE: Final = ("configure queue",)
_DECLARE_WITH_DEAD_LETTERS: Final = ("configure queue", "read queue", "write dead-letter exchange")
_DECLARE_EXCHANGE: Final = ("configure exchange",)
_DECLARE_WITH_ALTERNATE: Final = ("configure exchange", "read exchange", "write alternate exchange")
_BIND_QUEUE: Final = ("write queue", "read exchange", "read topic")
_BIND_EXCHANGE: Final = ("write destination", "read exchange", "read topic")
_PUBLISH: Final = ("write exchange", "write topic")
_READ_QUEUE: Final = ("read queue",)

AMQP_0_9_1: Final[dict[str, tuple[str, ...]]] = {
    "connection.open": ("a permission in the virtual host",),
    "connection.update-secret": NOTHING,
    "channel.open": NOTHING,
    "channel.close": NOTHING,
    "channel.flow": NOTHING,
    "channel.flow-ok": NOTHING,
    "access.request": NOTHING,
    "exchange.declare": _DECLARE_EXCHANGE,
    "exchange.declare, passive": NOTHING,
    "exchange.declare, new with alternate-exchange": _DECLARE_WITH_ALTERNATE,
    "exchange.delete": ("configure exchange",),
    "exchange.bind": _BIND_EXCHANGE,
    "exchange.unbind": _BIND_EXCHANGE,
    "queue.declare": _DECLARE_QUEUE,
    "queue.declare, passive": NOTHING,
    "queue.declare, new with x-dead-letter-exchange": _DECLARE_WITH_DEAD_LETTERS,
    "queue.bind": _BIND_QUEUE,
    "queue.unbind": _BIND_QUEUE,
    "queue.purge": _READ_QUEUE,
    "queue.delete": ("configure queue",),
    "basic.qos": NOTHING,
    "basic.publish": _PUBLISH,
    "basic.publish, with CC or BCC": ("write exchange", "write topic", "write topic of each copy"),
    "basic.consume": _READ_QUEUE,
    "basic.consume, amq.rabbitmq.reply-to": NOTHING,
    "basic.cancel": NOTHING,
    "basic.get": _READ_QUEUE,
    "basic.ack": NOTHING,
    "basic.nack": NOTHING,
    "basic.reject": NOTHING,
    "basic.recover": NOTHING,
    "basic.recover-async": NOTHING,
    "confirm.select": NOTHING,
    "tx.select": NOTHING,
    "tx.commit": NOTHING,
    "tx.rollback": NOTHING,
}
"""Methods of AMQP 0-9-1, with the cases of one method that need something else.

The default exchange is `amq.default` in permissions. Routing keys count for exchanges of the type topic only.
"""

AMQP_1_0: Final[dict[str, tuple[str, ...]]] = {
    "open": ("a permission in the virtual host",),
    "attach, target /queues/:queue": ("write default exchange",),
    "attach, target /exchanges/:exchange": ("write exchange",),
    "attach, target /exchanges/:exchange/:key": _PUBLISH,
    "attach, target null": NOTHING,
    "attach, target /management": NOTHING,
    "attach, target dynamic": ("configure queue", "write default exchange"),
    "attach, target coordinator": NOTHING,
    "attach, source /queues/:queue": _READ_QUEUE,
    "attach, source /exchanges/:exchange": ("configure queue", *_BIND_QUEUE, "read queue"),
    "attach, source dynamic": ("configure queue", "read queue"),
    "attach, source null": ("configure queue", "read queue"),
    "attach, source /management": NOTHING,
    "transfer, target /exchanges/:exchange": _PUBLISH,
    "transfer, target null": _PUBLISH,
    "GET /queues/:queue": NOTHING,
    "PUT /queues/:queue": _DECLARE_QUEUE,
    "PUT /queues/:queue, new with x-dead-letter-exchange": _DECLARE_WITH_DEAD_LETTERS,
    "DELETE /queues/:queue": ("configure queue",),
    "DELETE /queues/:queue/messages": _READ_QUEUE,
    "PUT /exchanges/:exchange": _DECLARE_EXCHANGE,
    "PUT /exchanges/:exchange, new with alternate-exchange": _DECLARE_WITH_ALTERNATE,
    "DELETE /exchanges/:exchange": ("configure exchange",),
    "GET /bindings": NOTHING,
    "POST /bindings": _BIND_QUEUE,
    "DELETE /bindings/:binding": _BIND_QUEUE,
    "PUT /auth/tokens": NOTHING,
}
"""Links of AMQP 1.0 and requests to its management node. A queue that an attach creates is declared: configure."""
