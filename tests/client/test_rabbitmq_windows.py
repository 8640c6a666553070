"""A consumer's window in bytes beside a real RabbitMQ, over AMQP 0-9-1, where Debian's rabbitmq-server is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock
from bench.brokers import RABBITMQ, BrokerUnavailable, RabbitmqNode
from bench.brokers import Broker as RunningBroker
from tests.client.conversations import fresh

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

KIB = 1024


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a RabbitMQ."""
    try:
        node = RabbitmqNode(tmp_path_factory.mktemp("rabbitmq"))
        process = node.launch()
        broker = RunningBroker(RABBITMQ, node.title, node.port(process), process, node.close)
    except BrokerUnavailable as reason:
        pytest.skip(str(reason))
    yield f"amqp://guest:guest@127.0.0.1:{broker.port}/?protocol=amqp091"
    broker.stop()


@pytest.mark.parametrize("window", [1, 64 * KIB, 1024 * KIB])
@pytest.mark.parametrize(
    ("arguments", "durable"),
    [({}, True), ({"x-queue-type": "quorum"}, True), ({"x-expires": 600_000}, False)],
    ids=["classic", "quorum", "transient"],
)
async def test_window_of_a_receiver_at_rabbitmq_is_kept(
    rabbitmq: str, window: int, arguments: dict[str, object], durable: bool
) -> None:
    """Small messages, then large ones, then both: all come once, and no more wait than the window and one message.

    A quorum queue sorts what is returned to it by the consumers that had it.
    """
    sizes = [100] * 400 + [50_000] * 40 + [100, 20_000] * 60 + [300_000] * 4 + [100] * 400
    async with penstock.connect(rabbitmq) as connection:
        queue = await connection.declare_queue(fresh("window"), durable=durable, **arguments)
        bodies = [b"%6d" % number + bytes(size - 6) for number, size in enumerate(sizes)]
        assert (await connection.publisher(queue).send_many(bodies)).confirmed == len(sizes)
        numbers: list[int] = []
        async with connection.receiver(queue, consumerWindowSize=window) as receiver:
            while len(numbers) < len(sizes):
                message = await receiver.receive(60)
                assert message is not None, f"nothing comes after {len(numbers)} messages"
                numbers.append(int(message.body[:6]))
                waiting = [len(each.body) for each in receiver._core().ready]
                assert sum(waiting[:-1]) <= window
                message.accept()
        in_order = numbers if arguments.get("x-queue-type") != "quorum" else sorted(numbers)
        assert in_order == list(range(len(sizes)))
        await connection.delete_queue(queue)


async def test_auto_delete_queue_outlives_a_change_of_prefetch(rabbitmq: str) -> None:
    async with penstock.connect(rabbitmq) as connection:
        queue = await connection.declare_queue(fresh("window"), auto_delete=True, durable=False)
        async with connection.receiver(queue, consumerWindowSize=4 * KIB) as receiver:
            publisher = connection.publisher(queue)
            for size in (10, 3000, 10, 5000):
                await publisher.send_many([bytes(size)] * 50)
                for _ in range(50):
                    message = await receiver.receive(60)
                    assert message is not None
                    assert len(message.body) == size
                    message.accept()
