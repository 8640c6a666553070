"""Artemis' checklist, producers: what goes through a small address whole, in order, and exactly once.

There an address holds messages and its queues refer to them; a producer has credits in bytes from it. Here a queue has
a capacity, and a producer's window is how many confirmations it waits for. `max-size-bytes` of 10 KiB and `BLOCK` are
taken by their names. What a producer's window of 1 KiB is there, are two messages of 500 octets here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import aio_pika
import pika
import pytest
from aio_pika.exceptions import ChannelClosed
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Message
from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, in_background, some_name
from tests.support.checklist_clients import FIXED, OVERHEAD, Board, Consumer, Producer, Taker
from tests.support.experiments import SUMS
from tests.support.raw_channel import Connection

pytestmark = pytest.mark.clients

SMALL = {"max-size-bytes": 10 * 1024, "address-full-policy": "BLOCK"}
KIB = 1024


@contextmanager
def publishing(broker: BrokerProcess, exchange: str, key: str, bodies: list[bytes], window: int = 2) -> Iterator[None]:
    """Publish beside the context, a window at a time; at its end everything is confirmed."""

    def publish() -> None:
        with connect(broker.url, protocol="amqp091", flow_control_wait_failure=0) as connection:
            publisher = connection.publisher(exchange=exchange, window=window, durable=False)
            # Each message names its address itself.
            assert publisher.send_many(Message(body, routing_key=key) for body in bodies).confirmed == len(bodies)

    with in_background(publish):
        yield


def numbered(source: int, count: int, octets: int) -> list[bytes]:
    """Bodies that tell their source and number; empty where they shall have no octets."""
    return [f"{source} {number} ".encode().ljust(octets, b"x")[: octets or 0] for number in range(count)]


def consume(
    broker: BrokerProcess, queues: list[str], arguments: dict[str, object], expected: int, batch: int
) -> list[list[bytes]]:
    """Consume these queues, one consumer each, acknowledging by the batch, until so much has come in all."""
    got: list[list[bytes]] = [[] for _ in queues]
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        for queue, found in zip(queues, got, strict=True):
            channel = connection.channel()

            def receive(
                reading: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes, found: Any = found
            ) -> None:
                found.append(body)
                if len(found) % batch == 0:
                    reading.basic_ack(method.delivery_tag, multiple=True)

            channel.basic_consume(queue, receive, arguments=arguments)
        while sum(len(each) for each in got) < expected:
            connection.process_data_events(PATIENCE)
    return got


@pytest.mark.parametrize(
    ("producers", "consumers", "queues", "window", "batch", "octets"),
    [
        (1, 1, 1, -1, 5, 500),
        (1, 1, 1, 0, 1, 500),
        (1, 1, 1, -1, 1, 500),
        (1, 1, 1, -1, 5, 0),
        (5, 1, 1, -1, 5, 500),
        (3, 3, 1, -1, 1, 500),
        (1, 1, 5, -1, 1, 500),
    ],
    ids=["plain", "window-0", "acks-one-by-one", "empty-bodies", "5-producers", "3-and-3", "multicast-to-5"],
)
def test_thousand_messages_go_through_ten_kib_intact(
    queue: Callable[..., str],
    board: Board,
    broker: BrokerProcess,
    producers: int,
    consumers: int,
    queues: int,
    window: int,
    batch: int,
    octets: int,
) -> None:
    """Artemis, producer flow control: 1000 messages of 500 octets through an address of 10 KiB. Also with a consumer
    window of 0, acknowledged one by one, without bodies, by 5 producers, by 3 to 3 consumers, and to 5 queues at once.
    Each message names its address, as an anonymous producer's do; a consumer with a window of 0 is the slow one."""
    names = [queue(SMALL, prefix="multi") for _ in range(queues)]
    for name in names:
        board.keeper.queue_bind(name, "amq.direct", names[0])
    each = 1000 // (producers * queues)
    with ExitStack() as stack:
        for source in range(producers):
            stack.enter_context(publishing(broker, "amq.direct", names[0], numbered(source, each, octets)))
        total = each * producers * queues
        got = consume(broker, names * consumers, {"consumer-window-bytes": window}, total, batch)
    for index in range(queues):
        found = got[index] if consumers == 1 else [body for bodies in got for body in bodies]
        sent = [numbered(source, each, octets) for source in range(producers)]
        assert sorted(found) == sorted(body for bodies in sent for body in bodies)
        if consumers == 1 and octets:
            for source, bodies in enumerate(sent):
                assert [body for body in found if body.startswith(b"%d " % source)] == bodies
    for name in names:
        assert board.view(name)["highest"]["messages"] * (octets + 2) <= 10 * KIB


def test_message_ten_times_the_window_and_as_large_as_the_queue_passes(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer], board: Board
) -> None:
    """Artemis, producer flow control: 10 KiB through windows of 1 KiB into a maximum of 10 KiB; the next one waits."""
    name = queue(SMALL)
    publishing = producer(name).send(2, OVERHEAD + 10 * KIB).settled()
    assert (board.octets(name), board.held(name)) == (10 * KIB, 1)
    consuming = consumer(name, {"consumerWindowSize": KIB})
    for _ in range(2):
        eventually(lambda: consuming.buffers() == 1, "the message")
        consuming.ack()
    publishing.confirmed()
    assert [len(body) for body in consuming.bodies] == [10 * KIB - 2] * 2


@pytest.mark.parametrize("window", [0, -1, KIB])
def test_large_messages_in_many_frames_pass_with_each_window(
    queue: Callable[..., str], broker: BrokerProcess, window: int
) -> None:
    """Artemis, producer flow control: large bodies through windows far smaller than they are."""
    name = queue({"max-size-bytes": "1Mb", "address-full-policy": "BLOCK"})
    bodies = [bytes([number]) * 600_000 for number in range(5)]
    with publishing(broker, "", name, bodies):
        assert consume(broker, [name], {"consumerWindowSize": window}, 5, 1) == [bodies]


async def test_closing_the_channel_from_elsewhere_ends_a_blocked_send(
    queue: Callable[..., str], board: Board, broker: BrokerProcess
) -> None:
    """Artemis, producer flow control: who waits in a send is released with an error when its session is closed beside
    it. Here its message is then not in the queue, for nobody may believe that it is."""
    name = queue({"capacity-messages": 1})

    def wait_until_held() -> None:
        with closing(Board(broker)) as beside:  # The connections of `board` belong to the thread of the test.
            eventually(lambda: beside.held(name) == 1, "it waits")

    connection = await aio_pika.connect(broker.url)
    channel = await connection.channel()
    exchange = channel.default_exchange
    first = asyncio.create_task(exchange.publish(aio_pika.Message(b"1"), name))
    waiting = asyncio.create_task(exchange.publish(aio_pika.Message(b"2"), name))
    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(wait_until_held)
        await channel.close()
        found = await asyncio.gather(first, waiting, return_exceptions=True)
        await connection.close()
    assert isinstance(found[1], ChannelClosed)
    assert (board.held(name), board.depth(name)) == (0, 1)
    board.keeper.queue_purge(name)
    assert board.depth(name) == 0


def test_messages_to_an_address_without_queues_never_block(
    producer: Callable[..., Producer], say: Callable[..., None], board: Board
) -> None:
    """Artemis, producer flow control: what reaches no queue takes no room, however small the address."""
    name = some_name("nowhere")
    board.keeper.exchange_declare(name, "fanout", auto_delete=False)
    say("address", name, {"max-size-bytes": 1000})
    assert producer("", name).send(100, 900).confirmed().acked == 100


def test_more_than_a_thousand_addresses_leave_no_sender_blocked(
    board: Board, producer: Callable[..., Producer], broker: BrokerProcess
) -> None:
    """Artemis, producer flow control: one sender, 1,001 addresses that block it, and none is forgotten when they are
    emptied. (There credits are kept for 1,000 of them.)"""
    names = [f"many-{number}" for number in range(1001)]
    publishing = producer("")
    with Connection(broker.url) as connection:
        owner = connection.channel()
        for name in names:
            owner.queue_declare(name, exclusive=True, arguments={"stop-messages": 0, "resume-messages": 0})
            publishing.send(1, queue=name)
        assert publishing.settled().waiting == 1001
        for name in names:
            assert owner.queue_purge(name) == 1
        publishing.confirmed()


# Limits


@pytest.mark.parametrize("transacted", [False, True], ids=["plain", "transacted"])
@pytest.mark.parametrize(
    "limit", [{"max-size-messages": 10}, {"max-size-bytes": 10 * (300 - OVERHEAD)}], ids=["messages", "bytes"]
)
@pytest.mark.parametrize("policy", ["FAIL", "DROP", "BLOCK"])
def test_accepted_messages_can_be_consumed_and_the_limit_is_free_again(
    queue: Callable[..., str],
    taker: Callable[..., Taker],
    producer: Callable[..., Producer],
    board: Board,
    policy: str,
    limit: dict[str, object],
    transacted: bool,
) -> None:
    """Artemis, limits by messages and bytes, with FAIL, DROP and BLOCK, in transactions and without: ten are accepted
    and consumable in their order. The limit is free again after that."""
    stop = {limited.replace("max-size", "stop"): value for limited, value in limit.items()}
    name = queue(limit | {"address-full-policy": policy} | (stop if policy == "BLOCK" else {}))
    filling, publishing = taker(name), producer(name)
    if transacted:
        filling.channel.tx_select()
        for number in range(10):
            filling.channel.basic_publish("", name, str(number).encode().ljust(300 - FIXED))
        filling.channel.tx_commit()
    else:
        publishing.send(10, 300).settled()
    further = producer(name).send(2, 300).settled()
    assert board.depth(name) == 10
    assert further.nacked == (0 if policy == "BLOCK" else 2)
    assert taker(name).take(10) == list(range(10))
    if policy != "BLOCK":
        further.send(2, 300)
    assert further.confirmed().acked == 2
    assert board.depth(name) == 2


@pytest.mark.parametrize("policy", ["FAIL", "DROP", "BLOCK"])
def test_global_limit_holds_with_each_policy_of_the_queue(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    say: Callable[..., None],
    sums: Board,
    policy: str,
) -> None:
    """Artemis, limits, global: ten fit into the virtual host, and the order is kept. There the address's policy acts at
    a global limit too; here it is the queue's at its own capacity, and a sum of all only makes its producers wait."""
    say("vhost", SUMS, {"capacity-bytes": 3000, "stop-bytes": 3000})
    name = queue({"max-size-messages": 100, "address-full-policy": policy}, where=sums)
    publishing = producer(name, vhost=SUMS).send(25, 300).settled()
    assert (sums.depth(name), publishing.nacked) == (10, 0)
    assert taker(name, vhost=SUMS).take(25) == list(range(25))
    assert publishing.confirmed().acked == 25


def test_full_address_is_logged_once_and_its_end_once(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    say: Callable[..., None],
    board: Board,
) -> None:
    """Artemis, limits: one line when an address blocks, and one when it does not any more, only after draining."""
    exchange, names = some_name("address"), [queue() for _ in range(2)]
    board.keeper.exchange_declare(exchange, "fanout")
    for name in names:
        board.keeper.queue_bind(name, exchange)
    say("address", exchange, {"max-size-messages": 10, "stop-messages": 6, "resume-messages": 3})
    publishing = producer("", exchange).send(12).settled()
    board.logged(f"[address({exchange})] PST-1003 : Overfull", 1)
    first, second = (taker(name) for name in names)
    first.take(10)
    assert publishing.settled().waiting == 6, "a message counts once, until it has left both queues"
    board.logged(f"[address({exchange})] PST-1004 : Underfull", 0)
    assert second.take(12) == list(range(12))
    assert first.rest() == [10, 11]
    publishing.confirmed()
    board.logged(f"[address({exchange})] PST-1003 : Overfull", 1)
    board.logged(f"[address({exchange})] PST-1004 : Underfull", 1)
