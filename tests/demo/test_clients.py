"""Clients of the demo: each publishes into a queue that is much too small for its load."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import data
from demo.children import Children
from demo.clients import CLIENTS
from demo.report import ledger
from penstock.sync import connect
from tests.support.brokers import PATIENCE
from tests.support.raw_channel import Connection

FEW = 3_000
CAPACITY = 64 * 1024


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with Children(tmp_path) as children:
        broker = children.start("broker", "penstock", "serve", "--listen", "127.0.0.1:0", "--memory")
        address = children.line_from(broker, PATIENCE).split("amqp://")[1].split()[0]
        yield f"amqp://guest:guest@{address}"


def consumed(url: str, queue: str, count: int, found: list[bytes]) -> None:
    """Consume, but not before somebody is blocked."""
    with Connection(url) as connection:
        with connect(url, protocol="amqp091") as control:
            while not control.why(queue).raw["blocked"]:
                time.sleep(0.01)  # nobody tells when
        channel = connection.channel()
        channel.consume(queue, no_ack=True)
        while len(found) < count:
            delivery = channel.receive(PATIENCE)
            if delivery is None:
                return
            found.append(bytes(delivery.body))


@pytest.mark.clients
@pytest.mark.parametrize("client", CLIENTS)
def test_client_that_is_held_again_and_again_loses_and_doubles_nothing(url: str, client: str):
    _columns, lines = data.read()
    told: list[tuple[int, int]] = []
    found: list[bytes] = []
    with Connection(url) as connection, connect(url, protocol="amqp091") as control:
        connection.channel().queue_declare("q", arguments={"capacity-bytes": CAPACITY, "hold-deadline": 0})
        consumer = threading.Thread(target=consumed, args=(url, "q", FEW, found), daemon=True)
        consumer.start()
        CLIENTS[client](f"{url}/%2F", "q", lines[:FEW], lambda *numbers: told.append(numbers))
        consumer.join(200)
        view = control.why("q").raw
    assert Counter(found) == Counter(lines[:FEW])
    assert told[-1] == (FEW, FEW)
    assert view["highest"]["bytes"] <= CAPACITY
    assert ledger(view)["guest"]["times"] >= 1
