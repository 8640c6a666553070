"""Messages that a broker refuses with the channel or link of their publisher: the connection goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import penstock
from penstock.client.engine.amqp091.publisher import Publisher091
from penstock.client.engine.connection import Engine
from penstock.client.engine.outcomes import Receipt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.terms import PublisherTerms
from penstock.client.errors import LinkClosed
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.spec import ReplyCode
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import composite
from tests.client.conversations import PROTOCOLS, both_protocols, fresh, received, until, url_of
from tests.client.engine.dialogues import begin, method, opened_091, opened_10, performative, released, said

SENT, REFUSED, UNKNOWN = "on the wire", "refused", "unknown"


def publisher_091(count: int) -> tuple[Publisher091, list[Receipt]]:
    """Return a publisher at a broker that is not Penstock, with so many messages under way."""
    engine = opened_091()
    publisher = engine.publisher(PublisherTerms(key="orders"))
    assert isinstance(publisher, Publisher091)
    said(engine, method(1, spec.CHANNEL_OPEN_OK) + method(1, spec.CONFIRM_SELECT_OK))
    receipts = [publisher.publish(b"%d" % number) for number in range(count)]
    assert [receipt.state for receipt in receipts] == [SENT] * count
    return publisher, receipts


def close(code: int, at: int) -> bytes:
    """Return the server's close of channel 1 because of a method, 0 for none."""
    fields = {"reply_code": code, "reply_text": "WORDS - the reason", "class_id": at >> 16, "method_id": at & 0xFFFF}
    return method(1, spec.CHANNEL_CLOSE, **fields)


def error_of(receipt: Receipt) -> penstock.ClientError:
    with pytest.raises(penstock.ClientError) as failure:
        receipt.check()
    return failure.value


PLACES = (
    ReplyCode.NO_ROUTE,
    ReplyCode.NO_CONSUMERS,
    ReplyCode.INVALID_PATH,
    ReplyCode.ACCESS_REFUSED,
    ReplyCode.NOT_FOUND,
    ReplyCode.RESOURCE_LOCKED,
)
KINDS: dict[int, type[penstock.ClientError]] = {
    ReplyCode.CONTENT_TOO_LARGE: penstock.MessageTooLarge,
    ReplyCode.PRECONDITION_FAILED: penstock.MessageRefused,
    **dict.fromkeys(PLACES, penstock.LinkClosed),
}
"""Errors of a message at whose publish the channel was closed, by code; of the other codes its outcome is unknown."""
CODES = [int(code) for code in ReplyCode if code != ReplyCode.REPLY_SUCCESS]


@pytest.mark.parametrize("code", CODES)
def test_channel_closed_at_a_publish_refuses_the_message_by_the_code(code: int) -> None:
    publisher, (receipt,) = publisher_091(1)
    said(publisher.engine, close(code, spec.BASIC_PUBLISH))
    error = error_of(receipt)
    assert type(error) is KINDS.get(code, penstock.LinkClosed)
    assert receipt.state == (REFUSED if code in KINDS else UNKNOWN)
    assert "the reason" in str(error)
    assert "connection" not in str(error)
    assert error.receipt is receipt  # type: ignore[attr-defined]  # Each of these kinds has one.
    assert publisher.engine.fault is None
    with pytest.raises(penstock.LinkClosed) as failure:
        publisher.try_publish(b"next")
    assert failure.value.code == code


@pytest.mark.parametrize("code", CODES)
def test_channel_closed_at_a_publish_leaves_earlier_messages_unknown_without_a_mark(code: int) -> None:
    publisher, receipts = publisher_091(3)
    said(publisher.engine, close(code, spec.BASIC_PUBLISH))
    assert [receipt.state for receipt in receipts] == [UNKNOWN, UNKNOWN, REFUSED if code in KINDS else UNKNOWN]
    assert {type(error_of(receipt)) for receipt in receipts} == {penstock.LinkClosed}


@pytest.mark.parametrize("at", [0, spec.CONFIRM_SELECT])
@pytest.mark.parametrize("code", CODES)
def test_channel_closed_for_another_cause_leaves_outcomes_unknown(code: int, at: int) -> None:
    publisher, (receipt,) = publisher_091(1)
    said(publisher.engine, close(code, at))
    is_refused = code == ReplyCode.CONTENT_TOO_LARGE  # It has no other cause than a message.
    assert receipt.state == (REFUSED if is_refused else UNKNOWN)
    assert type(error_of(receipt)) is (penstock.MessageTooLarge if is_refused else penstock.LinkClosed)


def test_returned_message_stays_refused_when_the_channel_is_closed() -> None:
    publisher, (receipt,) = publisher_091(1)
    head = b"\x00\x3c\x00\x00" + bytes(7) + b"\x01" + bytes(2)
    fields = {"reply_code": 312, "reply_text": "NO_ROUTE", "exchange": "", "routing_key": "orders"}
    body = b"\x02\x00\x01" + len(head).to_bytes(4, "big") + head + b"\xce\x03\x00\x01\x00\x00\x00\x010\xce"
    said(publisher.engine, method(1, spec.BASIC_RETURN, **fields) + body + close(541, 0))
    assert receipt.state == REFUSED
    assert receipt.reason == "NO_ROUTE"
    error = error_of(receipt)
    assert type(error) is penstock.MessageRefused
    assert str(error) == "the broker refused the message: there is no queue 'orders': NO_ROUTE"


def publisher_10(count: int) -> tuple[PublisherCore, list[Receipt]]:
    """Return a publisher of AMQP 1.0 at a broker that is not Penstock, with so many messages under way."""
    engine = opened_10()
    publisher = engine.publisher(PublisherTerms(key="orders"))
    released(engine)
    begin(engine)
    target = composite(spec10.TARGET, address="orders")
    said(engine, performative(spec10.ATTACH, name=publisher.name, handle=7, role=True, target=target))  # type: ignore[attr-defined]  # One of AMQP 1.0.
    said(engine, performative(spec10.FLOW, next_incoming_id=0, incoming_window=100, next_outgoing_id=0,
                              outgoing_window=100, handle=7, delivery_count=0, link_credit=10))  # fmt: skip
    return publisher, [publisher.publish(b"%d" % number) for number in range(count)]


DETACHED = [
    ("amqp:link:message-size-exceeded", 1, REFUSED, penstock.MessageTooLarge),
    ("amqp:link:message-size-exceeded", 2, UNKNOWN, penstock.LinkClosed),
    ("amqp:resource-deleted", 1, UNKNOWN, penstock.LinkClosed),
    ("amqp:not-found", 1, UNKNOWN, penstock.LinkClosed),
    ("amqp:unauthorized-access", 2, UNKNOWN, penstock.LinkClosed),
    ("amqp:link:detach-forced", 1, UNKNOWN, penstock.LinkClosed),
    ("amqp:internal-error", 1, UNKNOWN, penstock.LinkClosed),
]


@pytest.mark.parametrize(("condition", "count", "state", "kind"), DETACHED)
def test_detached_link_is_no_lost_connection(condition: str, count: int, state: str, kind: type[Exception]) -> None:
    publisher, receipts = publisher_10(count)
    error = composite(spec10.ERROR, condition=condition, description="the reason")
    said(publisher.engine, performative(spec10.DETACH, handle=7, closed=True, error=error))
    for receipt in receipts:
        assert receipt.state == state
        found = error_of(receipt)
        assert type(found) is kind
        assert str(found).startswith("the reason")
        assert found.receipt is receipt  # type: ignore[attr-defined]  # Both kinds have one.
    assert publisher.engine.fault is None


def test_publisher_that_the_program_closes_is_no_lost_connection() -> None:
    publisher, (receipt,) = publisher_091(1)
    steps = publisher.closing(0)
    next(steps)
    publisher.engine.tick(1.0)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == [receipt]
    assert type(error_of(receipt)) is LinkClosed
    assert "the publisher was closed before an answer came" in str(error_of(receipt))


def test_lost_connection_is_still_the_cause_of_unknown_outcomes() -> None:
    publisher, (receipt,) = publisher_091(1)
    engine: Engine = publisher.engine
    engine.lose(penstock.ConnectionClosed(320, "shutdown"), False, 1.0)
    assert type(error_of(receipt)) is penstock.ConnectionLost


# At Penstock

Make = Callable[[penstock.Connection, str], tuple[penstock.Publisher, penstock.Message]]
CALLS: dict[str, tuple[Make, dict[str, type[penstock.ClientError]]]] = {
    "no exchange": (
        lambda connection, queue: (connection.publisher(exchange="nope", routing_key=queue), penstock.Message(b"x")),
        dict.fromkeys(PROTOCOLS, penstock.LinkClosed),
    ),
    "user-id of another": (
        lambda connection, queue: (connection.publisher(queue), penstock.Message(b"x", user_id="bob")),
        dict.fromkeys(PROTOCOLS, penstock.MessageRefused),
    ),
    "larger than the queue": (
        lambda connection, queue: (connection.publisher(queue), penstock.Message(bytes(3000))),
        dict.fromkeys(PROTOCOLS, penstock.MessageTooLarge),
    ),
}


@pytest.mark.parametrize("call", CALLS)
async def test_refusal_is_the_same_over_both_protocols(
    connection: penstock.Connection, protocol: str, call: str
) -> None:
    queue = await connection.declare_queue(fresh("small"), capacity_bytes="2KiB")
    make, kinds = CALLS[call]
    publisher, message = make(connection, queue)
    with pytest.raises(penstock.ClientError) as failure:
        await publisher.send(message)
    assert type(failure.value) is kinds[protocol]
    await connection.publisher(queue).send(b"beside")
    assert await received(connection, queue) == [b"beside"]


BAD = {
    "404": (penstock.Message(b"bad", exchange="nope"), penstock.LinkClosed),
    "406": (penstock.Message(b"bad", user_id="bob"), penstock.MessageRefused),
    "311": (penstock.Message(bytes(30_000)), penstock.MessageTooLarge),
}


@pytest.mark.parametrize("code", BAD)
async def test_mark_decides_which_messages_a_closed_channel_has_taken(broker_url: str, code: str) -> None:
    bad, kind = BAD[code]
    async with penstock.connect(url_of(broker_url, "amqp091")) as connection:
        queue = await connection.declare_queue(fresh("marked"), capacity_bytes="20KiB")
        publisher = connection.publisher(queue)
        await publisher.send(b"first")
        messages = [*(b"%d" % number for number in range(10)), bad, *(b"%d" % number for number in range(10, 15))]
        receipts = [publisher.try_publish(message) for message in messages]
        assert await publisher.drain(10) is True
        states = [receipt.state for receipt in receipts if isinstance(receipt, Receipt)]
        assert states == ["confirmed"] * 10 + [REFUSED] * 6
        errors = [error_of(receipt) for receipt in receipts[10:] if isinstance(receipt, Receipt)]
        assert [type(error) for error in errors] == [kind] + [penstock.LinkClosed] * 5
        assert await received(connection, queue) == [b"first", *(b"%d" % number for number in range(10))]


@pytest.mark.parametrize("kind", [penstock.MessageRefused, penstock.LinkClosed])
async def test_publisher_names_the_queue_that_an_outage_has_deleted(
    broker_url: str, kind: type[penstock.ClientError]
) -> None:
    protocol = PROTOCOLS[kind is penstock.LinkClosed]  # A link names its queue, a channel none.
    async with penstock.connect(broker_url) as other:
        queue = await other.declare_queue(fresh("gone"))
        async with penstock.connect(url_of(broker_url, protocol, reconnect_delay=2)) as connection:
            publisher = connection.publisher(queue)
            await publisher.send(b"one")
            connection._transport.abort()
            await until(lambda: connection._transport is None)
            await other.delete_queue(queue)
            with pytest.raises(kind, match=f"queue '{queue}'"):
                await publisher.send(b"two")


@both_protocols
async def test_call_to_an_unknown_exchange_raises_link_closed(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        with pytest.raises(penstock.LinkClosed, match="nope"):
            await connection.call("", b"x", exchange="nope", routing_key="k")


async def test_first_message_without_a_channel_waits_for_the_opening(
    connection: penstock.Connection, queue: str
) -> None:
    found = connection.publisher(queue).try_publish(b"x")
    assert isinstance(found, penstock.Blocked)
    assert found.cause == "opening"
    with pytest.raises(penstock.FlowControlTimeout, match="is being opened") as failure:
        await connection.publisher(queue).send(b"x", timeout=0)
    assert failure.value.blocked.cause == "opening"
