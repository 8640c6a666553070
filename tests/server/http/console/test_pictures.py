"""Pictures of docs/console.md, made from a real run: PENSTOCK_PICTURES=1 pytest -k pictures_of_the_console."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pika
import pytest
from PIL import Image

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import chromium, console
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = Path(__file__).resolve().parents[4] / "docs" / "pictures"
BYTES_MOST = 150_000
COLOURS = 256
WATCHED_MS = 60_000
WIDE, PHONE = (1280, 800), (390, 844)
TAKEN = (
    ("flow", "uploader", WIDE, "flow-light"),
    ("flow", "uploader", WIDE, "flow-dark"),
    ("queues", "thumbnails", WIDE, "queues-light"),
    ("queues/%2F/thumbnails", "Depth", WIDE, "queue-dark"),
    ("queues/%2F/orders.dead/messages", "order.new", WIDE, "messages-light"),
    ("flow", "thumbnails", PHONE, "phone-light"),
    ("queues", "thumbnails", PHONE, "phone-dark"),
)
"""Page, a text that it shows, size and name of each picture; the end of the name is the theme."""


class Queue(NamedTuple):
    """Queue with its capacity in messages, and the key of its binding to the exchange events."""

    name: str
    capacity: int
    key: str
    more: tuple[tuple[str, object], ...] = ()


class Producer(NamedTuple):
    """Client that publishes with some keys, and waits so many seconds between two messages."""

    name: str
    keys: tuple[str, ...]
    pause_s: float
    exchange: str = "events"
    vhost: str = "%2F"


class Consumer(NamedTuple):
    """Client that takes so many seconds for a message, and rejects one of so many."""

    name: str
    queue: str
    pause_s: float
    prefetch: int = 20
    rejected: int = 0
    vhost: str = "%2F"


QUEUES = (
    Queue("thumbnails", 5000, "image.*"),
    Queue("orders", 800, "order.*", (("x-dead-letter-exchange", "dlx"),)),
    Queue("invoices", 5000, "invoice.#"),
    Queue("audit", 20_000, "#"),
    Queue("emails", 10_000, "mail.*"),
    Queue("payments", 10_000, "pay.*"),
    Queue("held.by.operator", 1000, "held.*"),
    Queue("search.index", 100_000, "doc.*", (("x-max-length", 500),)),
)
TENANTS = 49
"""Queues of the virtual host tenants, most of them quiet."""
FILLED = (("thumbnails", 3900), ("invoices", 3000))
PRODUCERS = (
    Producer("uploader", ("image.new",), 0.02),
    Producer("web-1", ("order.new", "order.paid"), 0.01),
    Producer("web-2", ("order.new",), 0.01),
    Producer("billing", ("order.paid",), 0.02),
    Producer("gateway", ("invoice.a", "mail.x", "pay.y"), 0.02),
    Producer("warehouse", ("held.x",), 0.5),
    Producer("crawler", ("doc.a",), 0.05),
    Producer("tenant-app", ("tenant-003.jobs",), 0.2, "", "tenants"),
)
CONSUMERS = (
    Consumer("thumb-1", "thumbnails", 0.12),
    Consumer("shipping-1", "orders", 0.025, 50, rejected=12),
    Consumer("invoice-1", "invoices", 0.08, 50),
    Consumer("mailer", "emails", 0.01),
    Consumer("mailer", "emails", 0.01),
    Consumer("psp", "payments", 0.02, 10),
    Consumer("auditor", "audit", 0.004, 200),
    Consumer("indexer", "search.index", 0.09, 10),
    Consumer("tenant-worker", "tenant-003.jobs", 0.1, 10, vhost="tenants"),
)

pytestmark = pytest.mark.skipif(os.environ.get("PENSTOCK_PICTURES") != "1", reason="PENSTOCK_PICTURES=1 makes them")


def connected(url: str, name: str, vhost: str) -> pika.BlockingConnection:
    """Return a connection to a virtual host under a name."""
    return named_connection(f"{url.rstrip('/')}/{vhost}", name)


def publish(url: str, each: Producer) -> None:
    """Publish with confirms for ever; a held publish waits."""
    channel = connected(url, each.name, each.vhost).channel()
    channel.confirm_delivery()
    for number in count(1):
        body = b'{"id": %d, "customer": "c-%d", "total": %d}' % (number, number % 400, number * 7 % 9000)
        properties = pika.BasicProperties(
            content_type="application/json", message_id=f"{number:08x}", headers={"trace": f"t{number % 9}"}
        )
        channel.basic_publish(each.exchange, each.keys[number % len(each.keys)], body.ljust(300), properties)
        threading.Event().wait(each.pause_s)


def consume(url: str, each: Consumer) -> None:
    """Settle one message after the other for ever."""
    channel = connected(url, each.name, each.vhost).channel()
    channel.basic_qos(prefetch_count=each.prefetch)
    for number, (method, _, _) in enumerate(channel.consume(each.queue)):
        threading.Event().wait(each.pause_s)
        if each.rejected and number % each.rejected == 0:
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            channel.basic_ack(method.delivery_tag)


def consume_amqp10(url: str) -> None:
    """Accept messages over a link of AMQP 1.0 for ever."""
    with connect(url, protocol="amqp10") as connection, connection.receiver("emails") as receiver:
        while True:
            message = receiver.receive(3600.0)
            if message is not None:
                message.accept()


def run_clients(url: str) -> None:
    """Run all clients; this is a process of its own, which is ended when the pictures are made."""
    loader = named_connection(url, "loader")
    channel = loader.channel()
    channel.confirm_delivery()
    for queue, messages in FILLED:
        for _ in range(messages):
            channel.basic_publish("", queue, b"x" * 300)
    loader.close()
    threads = [threading.Thread(target=publish, args=(url, each)) for each in PRODUCERS]
    threads += [threading.Thread(target=consume, args=(url, each)) for each in CONSUMERS]
    threads.append(threading.Thread(target=consume_amqp10, args=(url,)))
    for thread in threads:
        thread.start()


def declare(web: Web) -> None:
    """Declare 60 queues of three virtual hosts, and hold one of them."""
    for vhost in ("back-office", "tenants"):
        web.do("PUT", f"/vhosts/{vhost}", {}, status=201)
        web.ask("PUT", f"/permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    web.do("PUT", "/exchanges/%2F/events", {"type": "topic"}, status=201)
    web.do("PUT", "/exchanges/%2F/dlx", {"type": "fanout"}, status=201)
    for queue in QUEUES:
        web.declare(queue.name, **{"capacity-messages": queue.capacity, **dict(queue.more)})
        web.do("POST", f"/bindings/%2F/e/events/q/{queue.name}", {"routing_key": queue.key}, status=201)
    web.declare("orders.dead")
    web.do("POST", "/bindings/%2F/e/dlx/q/orders.dead", {"routing_key": ""}, status=201)
    web.do("PUT", "/queues/back-office/reports.daily", {"arguments": {"capacity-messages": 1000}}, status=201)
    for number in range(TENANTS):
        web.do("PUT", f"/queues/tenants/tenant-{number:03}.jobs", {}, status=201)
    web.do("POST", "/penstock/block", {"queue": "held.by.operator", "reason": "the warehouse moves until 18:00"}, 200)


@contextmanager
def shop(broker: BrokerProcess) -> Iterator[None]:
    """A shop whose producers are faster than some of its consumers."""
    declare(Web(broker.http))
    process = multiprocessing.get_context("spawn").Process(target=run_clients, args=(broker.url,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def take(page: Page, broker: BrokerProcess, key: str, shown: str, name: str) -> None:
    """Open a page, and make its picture when the text is there."""
    page.goto(f"{broker.http}/#/{key}")
    page.get_by_role("main").get_by_text(shown).filter(visible=True).first.wait_for()
    page.wait_for_timeout(4000)
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    small = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    small.save(PICTURES / f"console-{name}.png", optimize=True)


def test_pictures_of_the_console(tmp_path: Path) -> None:
    options = ("--http", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    with chromium() as browser, serving(tmp_path, *options) as broker, shop(broker):
        with console(browser, broker.http, 1280, 800) as page:
            page.get_by_text("waits").first.wait_for()
            page.wait_for_timeout(WATCHED_MS)
        for key, shown, size, name in TAKEN:
            with console(browser, broker.http, *size, name.rpartition("-")[2]) as page:
                take(page, broker, key, shown, name)
    for *_, name in TAKEN:
        assert (PICTURES / f"console-{name}.png").stat().st_size <= BYTES_MOST, name
