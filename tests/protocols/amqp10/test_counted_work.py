"""Work of expensive frames: each counts about the microseconds that it takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.flow.work import SHARE
from penstock.protocols.amqp10.request_links import COORDINATOR_WORK as TRANSACTION_WORK
from penstock.protocols.amqp10.request_links import REQUEST_WORK
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, performative, sender
from tests.support.amqp10_management import MANAGEMENT, request_message
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, value_section

SELECTOR = Symbol("apache.org:selector-filter:string")
WINDOWS: dict[str, object] = {
    "next_incoming_id": 0, "incoming_window": 1 << 20, "next_outgoing_id": 0, "outgoing_window": 1 << 20,
}  # fmt: skip


def cost(client: Amqp10Dialogue, *frames: bytes) -> int:
    """Return the units of frames, without those of the turn after them."""
    work = client.driver.broker.work
    before = work.done
    client.connection.receive(b"".join(frames))
    return int(work.done - before)


def modified(annotations: int) -> Composite:
    added = {Symbol(f"x-opt-{n}"): "v" * 20 for n in range(annotations)}
    return composite(spec.MODIFIED, delivery_failed=True, message_annotations=added)


def consuming(count: int) -> Amqp10Dialogue:
    """Return a client with this many unsettled deliveries."""
    client = sender(capacity_messages=10_000)
    client.put(*[b"x"] * count, settled=True)
    client.attach_receiver("/queues/q", credit=count)
    return client


@pytest.mark.parametrize(
    ("state", "least"),
    [(composite(spec.RELEASED), 1), (composite(spec.REJECTED), 1), (modified(0), 2), (modified(20), 80)],
    ids=["released", "rejected", "modified", "annotations"],
)
def test_single_dispositions_count_bytes_and_work(state: Composite, least: int) -> None:
    client = consuming(100)
    frames = [performative(spec.DISPOSITION, role=True, first=n, last=n, settled=True, state=state) for n in range(100)]
    assert cost(client, *frames) >= 100 * least


def test_accepted_deliveries_stay_cheap() -> None:
    client = consuming(100)
    state = composite(spec.ACCEPTED)
    frames = [performative(spec.DISPOSITION, role=True, first=n, last=n, settled=True, state=state) for n in range(100)]
    assert cost(client, *frames) < 100


def attach(selector: str = "") -> bytes:
    filters = {SELECTOR: Described(SELECTOR, selector)} if selector else None
    source = composite(spec.SOURCE, address="/queues/q", filter=filters)
    return performative(
        spec.ATTACH, handle=0, role=True, name="r", source=source, target=composite(spec.TARGET)
    ) + performative(spec.DETACH, handle=0, closed=True)


def test_links_and_selectors_count() -> None:
    client = Amqp10Dialogue().declare("q")
    plain = cost(client, attach())
    assert plain >= 100
    selector = " OR ".join(f"k{n} LIKE '%x_{n}%'" for n in range(20))
    assert cost(client, attach(selector)) >= plain + len(selector) // 4


def test_sessions_count() -> None:
    client = Amqp10Dialogue()
    begin = performative(spec.BEGIN, 1, next_outgoing_id=0, incoming_window=10, outgoing_window=10)
    assert cost(client, begin, performative(spec.END, 1)) >= 100


@pytest.mark.parametrize("fields", [{}, {"handle": 1, "delivery_count": 0, "link_credit": 1}], ids=["session", "link"])
def test_flows_that_ask_for_an_echo_count(fields: dict[str, object]) -> None:
    client = Amqp10Dialogue().declare("q")
    client.attach_receiver("/queues/q", credit=1)
    assert cost(client, performative(spec.FLOW, echo=True, **WINDOWS, **fields) * 1000) >= 1000


def test_transactions_count() -> None:
    client = TransactionalPeer()
    declares = [client.transfer(value_section(composite(spec.DECLARE)), COORDINATOR) for _ in range(10)]
    assert cost(client, *declares) >= 10 * TRANSACTION_WORK >= 300


def test_requests_to_the_management_node_count() -> None:
    client = Amqp10Dialogue().declare("q")
    pair: dict[str, object] = {"name": "pair", "properties": {Symbol("paired"): True}, "snd_settle_mode": 1}
    client.attach_sender(MANAGEMENT, 20, source=composite(spec.SOURCE, address=MANAGEMENT), **pair)
    client.attach_receiver(MANAGEMENT, 21, credit=1000, **pair)
    requests = [client.transfer(request_message("GET", "/queues/q"), 20, settled=True) for _ in range(10)]
    assert cost(client, *requests) >= 10 * REQUEST_WORK >= 900


def in_parts() -> tuple[Amqp10Dialogue, bytes]:
    client = sender()
    first = client.transfer(b"\x00", more=True)
    return client, first + performative(spec.TRANSFER, 0, b"\x00", handle=0, more=True) * 10_000


FLOODS: dict[str, Callable[[], tuple[Amqp10Dialogue, bytes]]] = {
    "annotations": lambda: (
        consuming(1000),
        b"".join(
            performative(spec.DISPOSITION, role=True, first=n, last=n, settled=True, state=modified(20))
            for n in range(1000)
        ),
    ),
    "echoes": lambda: (Amqp10Dialogue(), performative(spec.FLOW, echo=True, **WINDOWS) * 10_000),
    "empty frames": lambda: (Amqp10Dialogue(), b"\x00\x00\x00\x08\x02\x00\x00\x00" * 10_000),
    "parts of a message": in_parts,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_flood_is_cut_into_shares(flood: str) -> None:
    client, data = FLOODS[flood]()
    scheduler = client.driver.scheduler
    scheduler.begin_turn()
    before = client.driver.broker.work.done
    scheduler.receive(client.connection, data)
    assert client.connection.input_paused
    assert client.driver.broker.work.done - before < SHARE * 1.5
