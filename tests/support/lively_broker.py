"""A broker with all that the console can show: blocked and held queues, dead letters, AMQP 1.0, three virtual hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pika

from penstock.client.engine.messages import Message
from penstock.sync import connect
from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection

LONG_NAME: Final = "a-queue-with-a-rather-long-name.of-sixty-characters.in-all-ab"
VHOSTS: Final = ("back-office", "tenants")
BINDINGS: Final = (("events", "orders", "order.*"), ("events", "thumbnails", "image.*"), ("dlx", "orders.dead", ""))
"""Exchanges with the queues bound to them, and the keys."""
DEAD: Final = 12
"""Dead letters in the queue orders.dead."""


def change(web: Web, method: str, path: str, body: object) -> None:
    """Change something, which must succeed."""
    answer = web.ask(method, path, body)
    assert answer.status < 300, (method, path, answer)


def prepare(web: Web) -> None:
    """Declare what the console shows, and fill some of it."""
    for vhost in VHOSTS:
        change(web, "PUT", f"/vhosts/{vhost}", {})
        change(web, "PUT", f"/permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    change(web, "PUT", "/users/ann", {"password": "a long password", "tags": "monitoring"})
    change(web, "PUT", "/permissions/%2F/ann", {"configure": "^ann", "write": "^ann", "read": ".*"})
    change(web, "PUT", "/vhost-limits/tenants/max-connections", {"value": 50})
    change(web, "PUT", "/user-limits/ann/max-channels", {"value": 100})
    definition = {"expires": 60000, "ha-mode": "all"}
    policy = {"pattern": "^tmp", "definition": definition, "apply-to": "queues", "priority": 1}
    change(web, "PUT", "/policies/%2F/short-lived", policy)
    change(web, "PUT", "/exchanges/%2F/events", {"type": "topic"})
    change(web, "PUT", "/exchanges/%2F/dlx", {"type": "fanout"})
    web.declare("orders", **{"capacity-messages": 50, "x-dead-letter-exchange": "dlx"})
    web.declare("orders.dead")
    web.declare("thumbnails", **{"capacity-messages": 20, "hold-deadline": 3600})
    web.declare("held.by.operator", **{"capacity-messages": 100})
    web.declare("search.index", **{"x-max-length": 5})
    web.declare("unread")
    web.declare(LONG_NAME)
    change(web, "PUT", "/queues/%2F/log", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    for source, queue, key in BINDINGS:
        change(web, "POST", f"/bindings/%2F/e/{source}/q/{queue}", {"routing_key": key})
    change(web, "PUT", "/queues/tenants/jobs", {"durable": True})
    change(web, "POST", "/penstock/block", {"queue": "held.by.operator", "reason": "the warehouse moves until 18:00"})
    settings = {"scope": "queue", "pattern": "unread", "settings": {"hold-deadline": 30}}
    change(web, "PUT", "/penstock/settings?vhost=%2F", settings)
    away = {"src-uri": "amqp://u:p@127.0.0.1:1", "src-queue": "in", "dest-uri": "amqp://", "dest-queue": "orders.dead"}
    change(web, "PUT", "/parameters/shovel/%2F/from-old-site", {"value": away})
    moving = {"source": "amqp://?queue=search.index", "target": "amqp:///tenants?queue=jobs"}
    change(web, "PUT", "/penstock/bridges/%2F/to-tenants", moving)
    change(web, "POST", "/penstock/bridges/%2F/to-tenants/pause", {})
    for name, messages in (("unread", 3), ("search.index", 7), ("log", 4)):
        for _ in range(messages):
            web.publish(name)


def die(broker: BrokerProcess) -> None:
    """Reject messages of the queue orders, so that they are dead letters."""
    connection = named_connection(broker.url, "shipping-1")
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(DEAD):
        properties = pika.BasicProperties(headers={"trace": "t1"})
        channel.basic_publish("events", "order.new", b'{"id": %d}' % number, properties)
    for _ in range(DEAD):
        method, _, _ = channel.basic_get("orders")
        channel.basic_reject(method.delivery_tag, requeue=False)
    connection.close()


@contextmanager
def lively(broker: BrokerProcess, web: Web) -> Iterator[None]:
    """Clients that publish to a full queue and wait, read slowly, hold a cursor, and speak AMQP 1.0."""
    prepare(web)
    die(broker)
    with ExitStack() as kept:
        producer = named_connection(broker.url, "uploader")
        kept.callback(lambda: producer.is_open and producer.close())
        channel = producer.channel()
        for _ in range(20):
            channel.basic_publish("events", "image.new", b"x" * 100)
        reader = named_connection(broker.url, "thumb-1")
        kept.callback(lambda: reader.is_open and reader.close())
        consuming = reader.channel()
        consuming.basic_qos(prefetch_count=5)
        consuming.basic_consume("thumbnails", lambda *_: None)
        control = kept.enter_context(connect(broker.url, protocol="amqp091"))
        control.attach_cursor("reader of unread", ["unread"])
        newer = kept.enter_context(connect(broker.url, protocol="amqp10"))
        kept.enter_context(newer.receiver("orders"))
        kept.enter_context(newer.publisher("orders")).publish(Message(b"order"))
        yield
