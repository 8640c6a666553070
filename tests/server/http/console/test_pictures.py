"""Pictures of docs/console.md, made from a real run: PENSTOCK_PICTURES=1 pytest -k pictures_of_the_console."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.console_browser import chromium, console

PICTURES = Path(__file__).resolve().parents[4] / "docs" / "pictures"
BYTES_MOST = 150_000
WATCHED_MS = 50_000

pytestmark = pytest.mark.skipif(os.environ.get("PENSTOCK_PICTURES") != "1", reason="PENSTOCK_PICTURES=1 makes them")


class Shop:
    """Clients of a shop: producers that are faster than some of the consumers."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.stopped = threading.Event()
        self.threads: list[threading.Thread] = []

    def connect(self, name: str) -> pika.BlockingConnection:
        parameters = pika.URLParameters(self.broker.url)
        parameters.client_properties = {"connection_name": name}
        return pika.BlockingConnection(parameters)

    def start(self, work: Callable[..., None], *words: object) -> None:
        thread = threading.Thread(target=work, args=words, daemon=True)
        self.threads.append(thread)
        thread.start()

    def publish(self, name: str, queue: str, pause_s: float) -> None:
        """Publish with confirms until the end; a held publish waits."""
        channel = self.connect(name).channel()
        channel.confirm_delivery()
        while not self.stopped.wait(pause_s):
            channel.basic_publish("", queue, b"x" * 200)

    def consume(self, name: str, queue: str, pause_s: float) -> None:
        """Acknowledge one message after the other."""
        connection = self.connect(name)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for method, _, _ in channel.consume(queue):
            if self.stopped.wait(pause_s):
                return
            channel.basic_ack(method.delivery_tag)


@contextmanager
def shop(broker: BrokerProcess) -> Iterator[None]:
    found = Shop(broker)
    connection = found.connect("setup")
    for queue, capacity in (("orders", 1000), ("invoices", 60), ("mail", 5000)):
        connection.channel().queue_declare(queue, arguments={"capacity-messages": capacity})
    connection.close()
    for name, queue in (("web shop", "orders"), ("nightly import", "orders"), ("billing", "invoices")):
        found.start(found.publish, name, queue, 0.005 if queue == "orders" else 0.01)
    found.start(found.publish, "mailer", "mail", 0.02)
    found.start(found.consume, "ledger", "invoices", 0.03)
    found.start(found.consume, "smtp", "mail", 0.0)
    yield
    found.stopped.set()


def test_pictures_of_the_console(tmp_path: Path) -> None:
    with chromium() as browser, serving(tmp_path, "--http", "127.0.0.1:0") as broker, shop(broker):
        with console(browser, broker.http, 1280, 720) as page:
            page.goto(f"{broker.http}/#/queues/%2F/invoices")
            page.get_by_role("heading", name="invoices").wait_for()
            page.wait_for_timeout(WATCHED_MS)
            page.get_by_role("region", name="Band").screenshot(path=PICTURES / "console-band.png")
            page.goto(f"{broker.http}/#/flow")
            page.locator("svg .producer.blocked").first.wait_for()
            page.wait_for_timeout(10_000)
            page.locator("svg .producer.blocked", has_text="web shop").click()
            page.get_by_role("heading", name="What would open it").wait_for()
            page.screenshot(path=PICTURES / "console-flow.png")
        with console(browser, broker.http, 390, 844, "dark") as page:
            page.goto(f"{broker.http}/#/flow")
            page.get_by_text("↓ gate").first.wait_for()
            page.wait_for_timeout(5_000)
            page.screenshot(path=PICTURES / "console-phone.png")
    for name in ("console-band", "console-flow", "console-phone"):
        assert (PICTURES / f"{name}.png").stat().st_size <= BYTES_MOST
