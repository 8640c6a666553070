"""Carrier by blocks: each message once and in order, through refusals, losses of either end and kills."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import penstock
from penstock.access.password_hash import SCRYPT_SALT, hash_password
from penstock.bridges.block_carrier import NAME_CHARACTERS, BlockCarrier, block_obstacle, label_of
from penstock.bridges.carrier import Terms
from penstock.bridges.ends import source_of, target_of
from penstock.bridges.state import AWAY, HELD, IDLE, MOVING, REFUSED
from penstock.client.errors import ControlError
from penstock.client.options import Options
from tests.support.brokers import PATIENCE, BrokerProcess, serving, some_name

QUICK = {"reconnect_delay": 0.01, "reconnect_delay_max": 0.05, "protocol": "amqp091"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("blocks")) as broker:
        yield broker


def carrier_of(
    old: str, new: str, source: str, target: str, terms: Terms | None = None, name: str = ""
) -> BlockCarrier:
    """Return a carrier from a queue to a place such as `queue=NAME`."""
    first = source_of(f"{old}?queue={source}")
    second = target_of(f"{new}?{target}", first)
    ends = [Options(end.url, {**QUICK, "name": f"bridge at {end.place}"}) for end in (first, second)]
    return BlockCarrier(first, second, ends[0], ends[1], terms or Terms(), name)


@asynccontextmanager
async def running(carrier: BlockCarrier) -> AsyncIterator[asyncio.Task[object]]:
    """Run a carrier until the block ends."""
    task = asyncio.create_task(carrier.run())
    yield task
    carrier.stop()
    await asyncio.wait_for(task, PATIENCE)


async def seen(look: Callable[[], object]) -> None:
    """Let the loop turn until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        while not look():  # noqa: ASYNC110 - the condition is the carrier's state, which has no event.
            await asyncio.sleep(0.01)


async def refused(carrier: BlockCarrier, text: str) -> None:
    await seen(lambda: carrier.state.name == REFUSED and text in carrier.state.reason)


class Ends:
    """A connection to the source and one to the target, each with a queue."""

    def __init__(self, old: penstock.Connection, new: penstock.Connection) -> None:
        self.old, self.new = old, new
        self.source, self.target = some_name("source"), some_name("target")

    async def put(self, first: int, end: int) -> None:
        await self.old.publisher(self.source).send_many(b"%d" % number for number in range(first, end))

    async def take(self, count: int, queue: str = "") -> list[int]:
        """Take messages of the target."""
        found: list[int] = []
        async with self.new.receiver(queue or self.target) as receiver:
            while len(found) < count:
                delivery = await receiver.receive(PATIENCE)
                assert delivery is not None, f"{len(found)} of {count} have come"
                found.append(int(delivery.body))
                delivery.accept()
        return found

    async def rest(self) -> int:
        return int((await self.new.run(_passive(self.new, self.target)))["message_count"])

    async def cursors(self) -> list[str]:
        return [str(row["name"]) async for row in self.old.list("cursors") if self.source in str(row["queues"])]


async def urgent_queue(connection: penstock.Connection) -> str:
    """Declare a queue with priorities."""
    name = some_name("urgent")
    arguments = {"queue": name, "durable": True, "arguments": {"x-max-priority": 3}}
    await connection.run(connection.core().calling("queue.declare", arguments))
    return name


def _passive(connection: penstock.Connection, queue: str) -> object:
    return connection.core().calling("queue.declare", {"queue": queue, "passive": True})


@asynccontextmanager
async def ends(old: str, new: str, **bounds: object) -> AsyncIterator[Ends]:
    """Two queues; the bounds are those of the target."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(penstock.connect(url, protocol="amqp091")) for url in (old, new)]
        found = Ends(made[0], made[1])
        await found.old.declare_queue(found.source)
        await found.new.declare_queue(found.target, **bounds)  # type: ignore[arg-type]
        yield found


async def test_messages_are_carried_once_in_order_and_nothing_is_left_behind(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        for first in (0, 9_000):
            await both.put(first, first + 9_000)
            carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", Terms(until_empty=True))
            state = await carrier.run()
            assert (state.carried, state.refused, carrier.underway, carrier.lag) == (9_000, 0, 0, 0)
            assert await both.take(9_000) == list(range(first, first + 9_000))
            assert await both.cursors() == [], "the queue is an ordinary one again"
        assert await both.rest() == 0


async def test_queue_that_others_read_by_a_cursor_is_not_carried_again(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        await both.put(0, 5)
        await both.old.create_cursor(some_name("spark"), [both.source])
        place = f"queue={both.target}"
        for first in (0, 5):
            if first:
                await both.put(5, 10)
            await carrier_of(broker.url, broker.url, both.source, place, Terms(until_empty=True), "beside").run()
            assert await both.take(5) == list(range(first, first + 5))
            assert "bridge beside" in await both.cursors()
        assert await both.rest() == 0


async def test_messages_of_both_protocols_and_large_ones_arrive_as_they_were_sent(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * 2_000
    sent = [
        penstock.Message(b"small", headers={"a": 1}, message_id="m1", priority=3, type="t", expiration=60.0),
        penstock.Message(body, message_id="m2", durable=True),
        penstock.Message(b"", correlation_id="c"),
    ]
    for protocol in ("amqp091", "amqp10"):
        async with ends(broker.url, broker.url) as both:
            async with penstock.connect(broker.url, protocol=protocol) as sender:
                await sender.publisher(both.source).send_many(sent)
            state = await carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", Terms(count=3)).run()
            assert state.carried == 3
            async with (
                penstock.connect(broker.url, protocol=protocol) as reader,
                reader.receiver(both.target) as receiver,
            ):
                found = [await receiver.receive(PATIENCE) for _ in sent]
            for message, delivery in zip(sent, found, strict=True):
                assert delivery is not None
                assert delivery.body == message.body
                for field in ("headers", "message_id", "priority", "type", "correlation_id"):
                    assert getattr(delivery.properties, field) == getattr(message.properties, field), field
                delivery.accept()


async def test_count_ends_the_carrier_and_leaves_the_rest(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        await both.put(0, 500)
        terms = Terms(count=120)
        assert (
            await carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", terms).run()
        ).carried == 120
        assert await both.take(120) == list(range(120))
        terms = Terms(until_empty=True)
        await carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", terms).run()
        assert await both.take(380) == list(range(120, 500))


async def test_messages_keep_their_keys_at_an_exchange(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        topic, other = some_name("topic"), some_name("other")
        await both.new.declare_exchange(topic, "topic")
        await both.old.declare_exchange(topic + ".in", "fanout")
        await both.old.bind(both.source, topic + ".in")
        await both.new.declare_queue(other)
        await both.new.bind(both.target, topic, "even.#")
        await both.new.bind(other, topic, "odd.#")
        for number in range(20):
            key = "odd.k" if number % 2 else "even.k"
            await both.old.publisher(exchange=topic + ".in", routing_key=key).send(b"%d" % number)
        await carrier_of(broker.url, broker.url, both.source, f"exchange={topic}", Terms(count=20)).run()
        assert await both.take(10) == list(range(0, 20, 2))
        assert await both.take(10, other) == list(range(1, 20, 2))


async def test_full_target_holds_the_source_and_says_why(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url, capacity_messages=100) as both:
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}")
        async with running(carrier):
            await seen(lambda: carrier.state.name == IDLE)
            await both.put(0, 8)
            await seen(lambda: carrier.state.name == MOVING)
            await both.put(8, 400)
            await seen(lambda: carrier.state.name == HELD and carrier.why)
            assert both.target in carrier.state.reason
            assert any(both.target in sentence for sentence in carrier.why)
            shown = await both.old.request("cursor.show", cursor=(await both.cursors())[0])
            assert 0 < shown["queues"][0]["lag"]["messages"] <= 400
            assert await both.take(400) == list(range(400))
            await seen(lambda: carrier.state.name in (MOVING, IDLE))
        assert carrier.state.carried == 400


async def test_gate_of_the_source_names_the_cursor_of_the_bridge(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url, capacity_messages=10) as both:
        source = some_name("narrow")
        await both.old.declare_queue(source, capacity_messages=40)
        carrier = carrier_of(broker.url, broker.url, source, f"queue={both.target}", name="narrow bridge")
        async with running(carrier):
            publisher = both.old.publisher(source)
            sending = asyncio.create_task(publisher.send_many(b"%d" % number for number in range(200)))
            sentences: list[str] = []
            async with asyncio.timeout(PATIENCE):
                while not any("narrow bridge" in each for each in sentences):
                    sentences = list((await both.old.why(source)).sentences)
            assert await both.take(200) == list(range(200))
            await sending


async def test_user_without_the_tag_management_hears_which_gate_holds(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url, capacity_messages=4) as both:
        user = some_name("mover")
        hashed = hash_password("pw", bytes(SCRYPT_SALT)).text()
        await both.new.request("user.declare", name=user, password_hash=hashed, tags=[])
        await both.new.request("permission.set", user=user, configure=".*", write=".*", read=".*")
        url = broker.url_of(user, "pw")
        carrier = carrier_of(url, url, both.source, f"queue={both.target}")
        async with running(carrier):
            await both.put(0, 40)
            await seen(lambda: carrier.state.name == HELD and carrier.why)
            assert both.target in carrier.why[0]


async def test_target_that_is_full_beyond_its_hold_deadline_holds_the_carrier(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url, capacity_messages=5, hold_deadline=0.2) as both:
        await both.put(0, 12)
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}")
        async with running(carrier):
            await seen(lambda: carrier.state.name == HELD and "hold deadline" in carrier.state.reason)
            assert await both.take(12) == list(range(12))
            assert carrier.state.reasons == []


async def test_rejecting_target_is_tried_again_in_order(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url, capacity_messages=5, overflow="reject") as both:
        await both.put(0, 12)
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}")
        async with running(carrier):
            await refused(carrier, both.target)
            assert carrier.state.carried == 5
            assert await both.take(12) == list(range(12))


async def test_deleted_target_is_told_and_carried_on_when_it_is_back(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}")
        async with running(carrier):
            await both.put(0, 3)
            assert await both.take(3) == [0, 1, 2]
            await both.new.delete_queue(both.target)
            await both.put(3, 6)
            await refused(carrier, "reaches no queue")
            await both.new.declare_queue(both.target)
            assert await both.take(3) == [3, 4, 5]


async def test_refusal_for_good_ends_a_carrier_that_is_to_end(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        await both.put(0, 3)
        await both.new.delete_queue(both.target)
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", Terms(until_empty=True))
        with pytest.raises(penstock.ClientError, match="reaches no queue"):
            await carrier.run()
        assert carrier.state.carried == 0


async def test_source_that_is_declared_anew_is_carried_from_its_first_message(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}")
        async with running(carrier):
            await both.put(0, 200)
            assert await both.take(200) == list(range(200))
            await both.old.delete_queue(both.source)
            await seen(lambda: carrier.state.name == REFUSED)
            await both.old.declare_queue(both.source)
            await both.put(200, 400)
            assert await both.take(200) == list(range(200, 400))


async def test_target_that_is_killed_gets_each_message_once(broker: BrokerProcess, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as target:
        address = target.addresses[0].removeprefix("amqp://")
        async with penstock.connect(broker.url, protocol="amqp091") as old:
            source = await old.declare_queue(some_name("source"))
            async with penstock.connect(target.url, protocol="amqp091") as new:
                await new.declare_queue("target")
            carrier = carrier_of(broker.url, target.url, source, "queue=target")
            publisher = old.publisher(source, durable=True)
            async with running(carrier):
                await publisher.send_many(b"%d" % number for number in range(3_000))
                await seen(lambda: carrier.state.carried > 0)
                target.kill()
                await seen(lambda: carrier.state.name == AWAY)
                assert carrier.state.reason.startswith("the target is away: ")
                await publisher.send_many(b"%d" % number for number in range(3_000, 4_000))
                with serving(tmp_path, *data, listen=(address,)) as again:
                    await seen(lambda: carrier.lag == 0)
                    async with penstock.connect(again.url, protocol="amqp091") as new:
                        both = Ends(old, new)
                        both.target = "target"
                        assert await both.take(4_000) == list(range(4_000))
                        assert await both.rest() == 0
                    carrier.stop()


async def test_source_that_is_killed_is_carried_on(broker: BrokerProcess, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as source:
        address = source.addresses[0].removeprefix("amqp://")
        async with penstock.connect(broker.url, protocol="amqp091") as new:
            target = await new.declare_queue(some_name("target"))
            async with penstock.connect(source.url, protocol="amqp091") as old:
                await old.declare_queue("source")
                await old.publisher("source", durable=True).send_many(b"%d" % number for number in range(3_000))
            carrier = carrier_of(source.url, broker.url, "source", f"queue={target}")
            async with running(carrier):
                await seen(lambda: carrier.state.carried > 0)
                source.kill()
                await seen(lambda: carrier.state.name == AWAY)
                with serving(tmp_path, *data, listen=(address,)) as again:
                    await seen(lambda: carrier.lag == 0 and carrier.state.name in (MOVING, IDLE))
                    async with penstock.connect(again.url, protocol="amqp091") as old:
                        both = Ends(old, new)
                        both.target = target
                        assert await both.take(3_000) == list(range(3_000))
                        assert await both.rest() == 0
                    carrier.stop()
                    await seen(lambda: carrier.state.name != AWAY)


async def test_second_bridge_of_a_name_is_refused(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.bridges.block_carrier.IN_USE_S", 0.0)
    async with ends(broker.url, broker.url) as both:
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", name="one")
        async with running(carrier):
            await both.put(0, 1)
            assert await both.take(1) == [0]
            with pytest.raises(ControlError, match="bridge one") as raised:
                await carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", name="one").run()
            assert raised.value.code == 405
            await both.put(1, 2)
            assert await both.take(1) == [1]


async def test_lost_marks_are_told_and_not_guessed(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ends(broker.url, broker.url) as both:
        await both.put(0, 10)
        first = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", name="lost")
        monkeypatch.setattr(first, "_settle", lambda old: None)  # As if it were killed before it settles.
        task = asyncio.create_task(first.run())
        await seen(lambda: first.state.carried == 10)
        task.cancel()
        await asyncio.wait({task})
        (query,) = [str(row["query"]) async for row in both.new.list("sinks") if "bridge lost" in str(row["query"])]
        await both.new.request("sink.end", query=query)
        second = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", name="lost")
        async with running(second):
            await refused(second, "up to 10 messages may be at queue")
            assert "penstock cursors move --force" in second.state.reason
            assert second.state.carried == 0
            await both.old.move_cursor("bridge lost", {both.source: 10}, force=True)
            await both.put(10, 12)
            await seen(lambda: second.state.carried == 2)
        assert await both.take(12) == list(range(12))


async def test_message_larger_than_a_block_is_refused_with_its_size(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        await both.put(0, 1)
        await both.old.publisher(both.source).send(bytes(17 * 1024 * 1024))
        carrier = carrier_of(broker.url, broker.url, both.source, f"queue={both.target}", Terms(until_empty=True))
        with pytest.raises(ControlError, match="a message of 17,825,792 bytes does not fit into a block"):
            await carrier.run()
        assert carrier.state.carried == 1


async def test_obstacles_of_exactly_once_are_told(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        urgent = await urgent_queue(both.old)
        ring = await both.old.declare_queue(some_name("ring"), overflow="drop-head", capacity_messages=5)
        found = []
        for queue in (both.source, urgent, ring):
            end = source_of(f"{broker.url}?queue={queue}")
            found.append(await block_obstacle(both.old, both.new, end, Terms()))
        assert found[0] == ""
        assert "has priorities" in found[1]
        assert "drop-head" in found[2]
        source = source_of(f"{broker.url}?queue={both.source}")
        async with both.old.receiver(both.source):
            assert "has consumers" in await block_obstacle(both.old, both.new, source, Terms())
        assert "one by one" in await block_obstacle(both.old, both.new, source, Terms(selector="a = 1"))


async def test_priority_queue_is_refused_at_the_beginning(broker: BrokerProcess) -> None:
    async with ends(broker.url, broker.url) as both:
        urgent = await urgent_queue(both.old)
        with pytest.raises(ControlError, match="has priorities"):
            await carrier_of(broker.url, broker.url, urgent, f"queue={both.target}").run()


def test_label_of_a_bridge_is_short_and_printable_ascii() -> None:
    assert label_of("plain") == "plain"
    long = "x" * 200
    assert label_of(long).startswith("x" * 60)
    assert label_of("é") != label_of("ü")
    assert all(len(label_of(each)) <= NAME_CHARACTERS and label_of(each).isascii() for each in (long, "é", "a\nb"))
