"""Relay of a bridge: sending as far as there is room, settlements by outcomes, and its waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import penstock
from penstock.client.engine.amqp091.publisher import Publisher091
from penstock.client.engine.messages import Forwarded
from penstock.client.engine.outcomes import CONFIRMED, REFUSED, UNKNOWN, FlowControlTimeout
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.relay import FREE_S, NO_REASON, PRESSED_WINDOW, REASONS_MOST, Relay
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.handles import relay_of
from tests.client.conversations import PROTOCOLS, depth_of, fresh, received, url_of
from tests.client.engine.dialogues import opened_091, opened_10
from tests.support.brokers import PATIENCE

PAIRS = [(source, target) for source in PROTOCOLS for target in PROTOCOLS]


class Ends:
    """Two connections, a queue on each, and the relay between them."""

    def __init__(self, old: penstock.Connection, new: penstock.Connection, relay: Relay, first: str, second: str):
        self.old, self.new, self.relay, self.first, self.second = old, new, relay, first, second

    async def move(self, count: int, patience: float = 10) -> None:
        """Pass on so many messages, waiting for each to arrive and for room."""
        moved = 0
        while moved < count:
            found = self.relay.move(count - moved)
            moved += found
            if not found and self.relay.is_blocked():
                moved += await self.new.run(self.relay.moving(patience))
            elif not found:
                await self.old.run(self.relay.waiting(10))


@asynccontextmanager
async def relaying(
    url: str, pair: tuple[str, str], count: int, *, exchange: str = "", prefetch: int = 1000, **bounds: object
) -> AsyncIterator[Ends]:
    """A relay whose source has numbered messages."""
    first, second = fresh(), fresh()
    async with penstock.connect(url_of(url, pair[0])) as old, penstock.connect(url_of(url, pair[1])) as new:
        await old.declare_queue(first)
        await new.declare_queue(second, **bounds)  # type: ignore[arg-type]
        await old.publisher(first).send_many(b"%d" % number for number in range(count))
        publisher = new.publisher(exchange=exchange) if exchange else new.publisher(second)
        async with old.receiver(first, prefetch=prefetch) as receiver:
            yield Ends(old, new, relay_of(receiver, publisher, bool(exchange)), first, second)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_relayed_messages_leave_their_queue_in_order(broker_url: str, pair: tuple[str, str]) -> None:
    async with relaying(broker_url, pair, 500, prefetch=60) as ends:
        await ends.move(500)
        await ends.new.run(ends.relay.finishing(10))
        assert (ends.relay.confirmed, ends.relay.under_way, ends.relay.again) == (500, 0, 0)
        assert ends.relay.bytes == sum(len(b"%d" % number) for number in range(500))
        assert await received(ends.new, ends.second) == [b"%d" % number for number in range(500)]
    async with penstock.connect(broker_url) as connection:
        assert await depth_of(connection, ends.first) == 0


async def test_relay_sends_no_more_than_its_credit(broker_url: str) -> None:
    async with relaying(broker_url, ("amqp091", "amqp10"), 50, capacity_messages=10) as ends:
        relay = ends.relay
        with pytest.raises(FlowControlTimeout):
            await ends.move(50, 0.2)
        assert relay.move(50) == 0
        assert relay.confirmed + relay.under_way + len(relay.receiver.ready) == 50
        assert 0 < await depth_of(ends.new, ends.second) <= 10


async def test_refused_message_stays_until_it_is_returned(broker_url: str) -> None:
    pair = ("amqp091", "amqp091")
    async with relaying(broker_url, pair, 3, capacity_messages=1, overflow="reject") as ends:
        relay = ends.relay
        await ends.move(3)
        await ends.new.run(relay.finishing(10))
        assert (relay.confirmed, relay.refused_count, len(relay.left)) == (1, 2, 2)
        assert min(relay.refused_at, relay.confirmed_at) > 0
        assert relay.reasons == [NO_REASON]
        relay.return_refused()
        assert relay.left == []
    async with penstock.connect(broker_url) as connection:
        assert await received(connection, ends.first) == [b"1", b"2"]


async def test_value_that_the_target_cannot_carry_is_refused_unsent(broker_url: str) -> None:
    async with relaying(broker_url, ("amqp091", "amqp10"), 0) as ends:
        unfit = penstock.Message(b"unfit", headers={"list": [1]})
        await ends.old.publisher(ends.first).send_many([unfit, penstock.Message(b"fit")])
        await ends.move(2)
        await ends.new.run(ends.relay.finishing(10))
        assert (ends.relay.confirmed, ends.relay.refused_count) == (1, 1)
        assert "the header 'list' cannot be sent" in ends.relay.reasons[0]


async def test_unprepared_message_is_not_sent(broker_url: str) -> None:
    def even(delivery: Delivery, message: Forwarded) -> bool:
        if int(delivery.body) % 2 == 0:
            return True
        delivery.accept()
        return False

    async with relaying(broker_url, ("amqp091", "amqp091"), 4) as ends:
        ends.relay.prepare = even
        await ends.move(4)
        await ends.new.run(ends.relay.finishing(10))
        assert await received(ends.new, ends.second) == [b"0", b"2"]
    async with penstock.connect(broker_url) as connection:
        assert await depth_of(connection, ends.first) == 0


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_exchange_gets_each_message_with_its_own_key(broker_url: str, pair: tuple[str, str]) -> None:
    async with relaying(broker_url, pair, 0, exchange="amq.topic") as ends:
        await ends.old.bind(ends.first, "amq.topic", "from.#")
        await ends.old.publisher(exchange="amq.topic", routing_key="from.a").send(b"a")
        await ends.old.unbind(ends.first, "amq.topic", "from.#")
        await ends.new.bind(ends.second, "amq.topic", "from.a")
        await ends.move(1)
        await ends.new.run(ends.relay.finishing(10))
        assert await received(ends.new, ends.second) == [b"a"]


async def test_wait_ends_by_wake_and_at_its_deadline(broker_url: str) -> None:
    async with relaying(broker_url, ("amqp091", "amqp091"), 0) as ends:
        await ends.old.run(ends.relay.waiting(0.01))
        waiting = asyncio.ensure_future(ends.old.run(ends.relay.waiting(3600)))
        while ends.relay.wait is None:  # noqa: ASYNC110 - the wait begins in the next turn.
            await asyncio.sleep(0)
        ends.relay.wake()
        await waiting
        assert ends.relay.wait is None
        ends.relay.wake()  # Nobody waits.


async def test_wait_raises_why_the_receiver_has_ended(broker_url: str) -> None:
    async with relaying(broker_url, ("amqp091", "amqp091"), 0) as ends:
        waiting = asyncio.ensure_future(ends.old.run(ends.relay.waiting(3600)))
        await ends.new.delete_queue(ends.first)
        with pytest.raises(penstock.ReceiverClosed):
            await waiting
        with pytest.raises(penstock.ReceiverClosed):
            await ends.old.run(ends.relay.waiting(3600))


async def test_withdrawn_message_returns_to_its_queue(broker_url: str) -> None:
    async with relaying(broker_url, ("amqp091", "amqp091"), 3, capacity_messages=1) as ends:
        relay = ends.relay
        await ends.move(3)
        async with asyncio.timeout(PATIENCE):
            while not relay.confirmed:  # noqa: ASYNC110 - a confirm wakes nobody while others are under way.
                await asyncio.sleep(0.01)
        relay.is_ending = True
        await ends.new.run(relay.publisher.withdrawing(10))
        await ends.new.run(relay.finishing(10))
        assert (relay.confirmed, relay.refused_count, relay.left) == (1, 0, [])
    async with penstock.connect(broker_url) as connection:
        assert await received(connection, ends.first) == [b"1", b"2"]


async def test_outcomes_settle_deliveries_and_reasons_are_bounded(broker_url: str) -> None:
    async with relaying(broker_url, ("amqp091", "amqp091"), 30) as ends:
        relay, taken = ends.relay, []
        while len(taken) < 30:
            delivery = relay.receiver.take_now()
            if delivery is None:
                await ends.old.run(relay.waiting(10))
            else:
                taken.append(delivery.forwarded())
        for number, message in enumerate(taken[:20]):
            relay.settled(message, REFUSED, number, f"reason {number // 2}" if number > 1 else "")
        relay.settled(taken[20], UNKNOWN, 20, "lost")
        relay.settled(taken[21], CONFIRMED, 21, "")
        assert relay.reasons == [NO_REASON, *(f"reason {number}" for number in range(1, REASONS_MOST))]
        assert (relay.confirmed, relay.refused_count, relay.unknown) == (1, 20, 1)
        await ends.old.run(relay.waiting(10))
        again = relay.receiver.take_now()
        assert again is not None
        assert (again.body, again.redelivered) == (b"20", True)


def test_stopped_publisher_has_a_small_window_for_a_moment() -> None:
    engine = opened_091()
    publisher = engine.publisher(PublisherTerms(key="q"))
    relay = Relay(engine.receiver(ReceiverTerms(queue="q")), publisher, False, None)
    assert isinstance(publisher, Publisher091)
    windows = []
    for stops, after in ((0, 0.0), (1, 0.1), (0, 0.1), (0, FREE_S - 0.2), (0, 0.2), (2, 0.0), (0, FREE_S)):
        engine.now += after
        for is_active in (False, True)[: max(stops, 0)]:
            publisher.flow(is_active)
        relay.move(1)
        windows.append(int(publisher.window))
        if publisher.is_stopped:
            publisher.flow(True)
    own = publisher.terms.window
    assert windows == [own, *[PRESSED_WINDOW] * 3, own, PRESSED_WINDOW, own]


def test_publisher_over_amqp10_keeps_its_window_without_credit() -> None:
    engine = opened_10()
    publisher = engine.publisher(PublisherTerms(key="q"))
    relay = Relay(engine.receiver(ReceiverTerms(queue="q")), publisher, False, None)
    publisher.note_blocked(True)
    relay.move(1)
    assert publisher.window == publisher.terms.window
