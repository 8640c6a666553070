"""Pictures of docs/console.md, made from a real run: PENSTOCK_PICTURES=1 pytest -k pictures_of_the_console."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.brokers import serving
from tests.support.console_browser import chromium, console
from tests.support.pika_helpers import named_connection

PICTURES = Path(__file__).resolve().parents[4] / "docs" / "pictures"
BYTES_MOST = 150_000
WATCHED_MS = 50_000
QUEUES = {"orders": 1000, "invoices": 60, "mail": 5000}
"""Queues with their capacities in messages."""
PRODUCERS = (
    ("web shop", "orders", 0.005),
    ("nightly import", "orders", 0.005),
    ("billing", "invoices", 0.01),
    ("mailer", "mail", 0.02),
)
CONSUMERS = (("ledger", "invoices", 0.03), ("smtp", "mail", 0.0))
"""Clients with their queues, and seconds from one message to the next."""

pytestmark = pytest.mark.skipif(os.environ.get("PENSTOCK_PICTURES") != "1", reason="PENSTOCK_PICTURES=1 makes them")


def publish(url: str, name: str, queue: str, pause_s: float) -> None:
    """Publish with confirms for ever; a held publish waits."""
    channel = named_connection(url, name).channel()
    channel.confirm_delivery()
    while not threading.Event().wait(pause_s):
        channel.basic_publish("", queue, b"x" * 200)


def consume(url: str, name: str, queue: str, pause_s: float) -> None:
    """Acknowledge one message after the other for ever."""
    channel = named_connection(url, name).channel()
    channel.basic_qos(prefetch_count=20)
    for method, _, _ in channel.consume(queue):
        threading.Event().wait(pause_s)
        channel.basic_ack(method.delivery_tag)


def run_clients(url: str) -> None:
    """Run all clients; this is a process of its own, which is ended when the pictures are made."""
    connection = named_connection(url, "setup")
    for queue, capacity in QUEUES.items():
        connection.channel().queue_declare(queue, arguments={"capacity-messages": capacity})
    connection.close()
    threads = [threading.Thread(target=publish, args=(url, *each)) for each in PRODUCERS]
    threads += [threading.Thread(target=consume, args=(url, *each)) for each in CONSUMERS]
    for thread in threads:
        thread.start()


@contextmanager
def shop(url: str) -> Iterator[None]:
    """A shop whose producers are faster than some of its consumers."""
    process = multiprocessing.get_context("spawn").Process(target=run_clients, args=(url,))
    process.start()
    yield
    process.kill()
    process.join()


def test_pictures_of_the_console(tmp_path: Path) -> None:
    with chromium() as browser, serving(tmp_path, "--http", "127.0.0.1:0") as broker, shop(broker.url):
        with console(browser, broker.http, 1240, 600) as page:
            page.get_by_role("button", name="Producer web shop").wait_for()
            page.goto(f"{broker.http}/#/queues/%2F/invoices")
            page.get_by_role("heading", name="invoices").wait_for()
            page.wait_for_timeout(WATCHED_MS)
            page.get_by_role("region", name="Depth and rates").screenshot(path=PICTURES / "console-band.png")
            page.goto(f"{broker.http}/#/flow")
            page.get_by_role("button", name="Producer web shop").wait_for()
            page.wait_for_timeout(10_000)
            page.get_by_role("heading", name="What helps").wait_for()
            page.screenshot(path=PICTURES / "console-flow.png")
        with console(browser, broker.http, 390, 844, "dark") as page:
            page.locator("a.lane.blocked").first.wait_for()
            page.wait_for_timeout(5_000)
            page.screenshot(path=PICTURES / "console-phone.png")
    for name in ("console-band", "console-flow", "console-phone"):
        assert (PICTURES / f"{name}.png").stat().st_size <= BYTES_MOST
