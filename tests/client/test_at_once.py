"""Errors that are known at once are raised at once, and no call depends on links of an earlier call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import penstock
import penstock.sync
from penstock.client.errors import Timeout
from penstock.errors import PenstockError
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.client.conversations import both_protocols, depth_of, fresh, until, url_of
from tests.support.scripted_amqp10 import HANDLE, Amqp10Peer
from tests.support.scripted_server import played


async def test_call_to_an_exchange_that_routes_nowhere_is_refused(connection: penstock.Connection) -> None:
    exchange, queue = fresh("exchange"), await connection.declare_queue(fresh("service"))
    await connection.declare_exchange(exchange, "direct")
    for _ in range(2):
        with pytest.raises(penstock.MessageRefused, match=r"NO_ROUTE|no queue"):
            await connection.call("", b"hello", exchange=exchange, routing_key="prices")
    await connection.bind(queue, exchange, "prices")
    with pytest.raises(Timeout):
        await connection.call("", b"hello", exchange=exchange, routing_key="prices", timeout=0.1)
    await connection.delete_exchange(exchange)
    await connection.delete_queue(queue)


async def test_call_that_the_queue_rejects_is_refused_alone(connection: penstock.Connection) -> None:
    queue = await connection.declare_queue(fresh("service"), max_length=2, overflow="reject-publish")
    calls = [asyncio.ensure_future(connection.call(queue, b"%d" % number)) for number in range(5)]
    await until(lambda: sum(call.done() for call in calls) == 3)
    assert {type(call.exception()) for call in calls[2:]} == {penstock.MessageRefused}
    async with connection.receiver(queue) as receiver:
        for _ in range(2):
            message = await receiver.receive(5)
            message.reply(message.body)
            message.accept()
        assert [(await call).body for call in calls[:2]] == [b"0", b"1"]
    await connection.delete_queue(queue)


@both_protocols
async def test_call_that_cannot_be_encoded_is_an_error_and_affects_no_other_call(
    broker_url: str, protocol: str
) -> None:
    async with penstock.connect(url_of(broker_url, protocol, reconnect=False)) as connection:
        queue = await connection.declare_queue(fresh("service"))
        other = asyncio.ensure_future(connection.call(queue, b"other"))
        with pytest.raises(PenstockError, match="the property message_id cannot be sent"):
            await connection.call(queue, penstock.Message(b"bad", message_id="\ud800" * 300))
        async with connection.receiver(queue) as receiver:
            message = await receiver.receive(5)
            message.reply(b"answer")
            message.accept()
        assert (await other).body == b"answer"
        await connection.delete_queue(queue)


@both_protocols
def test_answer_is_sent_before_the_connection_is_closed(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        queue = connection.declare_queue(fresh("service"))

        def serve() -> None:
            with penstock.sync.connect(url_of(broker_url, protocol)) as server, server.receiver(queue) as receiver:
                message = receiver.receive()
                receiver.drain()  # So that the end of the receiver waits for nothing else.
                message.reply(b"answer")
                message.accept()

        serving = threading.Thread(target=serve)
        serving.start()
        assert connection.call(queue, b"question").body == b"answer"
        serving.join()
        connection.delete_queue(queue)


@both_protocols
def test_first_control_operation_is_sent_by_begin(broker_url: str, protocol: str) -> None:
    url = url_of(broker_url, protocol)
    with penstock.sync.connect(url) as first, penstock.sync.connect(url) as second:
        queue = second.declare_queue(fresh())
        call = first.begin("block", {"queue": queue})
        while all(gate.open for gate in second.why(queue).gates):
            pass
        first.answer(call)
        second.delete_queue(queue)


@both_protocols
def test_attempts_to_publish_find_the_room_that_has_come(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        queue = connection.declare_queue(fresh(), capacity_messages=2)
        publisher = connection.publisher(queue, window=1)

        def publish() -> None:
            while isinstance(publisher.try_publish(b"x"), penstock.Blocked):
                pass

        publish()  # Its link has no credit before the broker has answered.
        while connection.why(queue).gates[0].open:
            publisher.try_publish(b"x")
        connection.purge_queue(queue)
        publish()
        connection.purge_queue(queue)
        publisher.close()
        connection.delete_queue(queue)


async def test_questions_at_the_same_time_are_all_answered(connection: penstock.Connection, queue: str) -> None:
    await connection.publisher(queue).send_many([b"x"] * 3)
    async with connection.receiver(queue, consumerWindowSize=0) as receiver:
        assert await asyncio.gather(*(receiver.count() for _ in range(3))) == [3, 3, 3]
        assert await receiver.drain() is False
        assert await depth_of(connection, queue) == 3


def attach_and_go(peer: Amqp10Peer) -> None:
    """Attach a receiver, and hang up at its question."""
    peer.attach()
    while not peer.expect(spec.FLOW).flag("echo"):
        pass


def detach_at_question(peer: Amqp10Peer) -> None:
    """Attach a receiver, and detach it at its question."""
    attach_and_go(peer)
    peer.say(spec.DETACH, handle=HANDLE, closed=True, error=composite(spec.ERROR, condition="amqp:resource-deleted"))
    peer.hear_goodbye()


@pytest.mark.parametrize(
    ("script", "error"), [(attach_and_go, penstock.ConnectionClosed), (detach_at_question, penstock.LinkClosed)]
)
def test_question_ends_with_the_link_or_connection(
    script: Callable[[Amqp10Peer], None], error: type[penstock.ClientError]
) -> None:
    def whole(peer: Amqp10Peer) -> None:
        peer.greet()
        script(peer)

    with played(lambda peer: whole(Amqp10Peer(peer))) as where:
        connection = penstock.sync.connect(f"amqp://127.0.0.1:{where.port}?protocol=amqp10&reconnect=false")
        receiver = connection.receiver("q", prefetch=4)
        with pytest.raises(error):
            receiver.count()
        connection.close()


@pytest.mark.parametrize("commits", [False, True])
def test_detached_coordinator_ends_waiting_calls(commits: bool) -> None:
    def script(peer: Amqp10Peer) -> None:
        peer.greet()
        peer.attach(role=True)
        peer.flow(handle=HANDLE, delivery_count=0, link_credit=10)
        for number in range(1 + commits):
            peer.expect(spec.TRANSFER)
            if number < commits:
                declared = composite(spec.DECLARED, txn_id=b"1")
                peer.say(spec.DISPOSITION, role=True, first=0, last=0, settled=True, state=declared)
        error = composite(spec.ERROR, condition="amqp:not-implemented", description="there are no transactions")
        peer.say(spec.DETACH, handle=HANDLE, closed=True, error=error)
        peer.hear_goodbye()

    with played(lambda peer: script(Amqp10Peer(peer))) as where:
        connection = penstock.sync.connect(f"amqp://127.0.0.1:{where.port}?protocol=amqp10&reconnect=false")
        with pytest.raises(penstock.TransactionAborted, match="there are no transactions"), connection.transaction():
            pass
        connection.close()
