"""The client with an unconfigured Artemis: an unknown address is one of topics unless a queue is declared.

PENSTOCK_BESIDE=artemis runs these tests, where Artemis is there or may be fetched (PENSTOCK_FETCH=1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import penstock
from bench import peers10, processes
from bench.brokers import BrokerUnavailable
from tests.client.conversations import fresh
from tests.support.fetched_clients import ClientMissingError, artemis_home

pytestmark = [
    pytest.mark.skipif("artemis" not in os.environ.get("PENSTOCK_BESIDE", "").split(), reason="not asked for"),
    pytest.mark.timeout(700),
]


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an Artemis with its own default of routing types."""
    scratch = tmp_path_factory.mktemp("artemis")
    patch = pytest.MonkeyPatch()
    try:
        patch.setenv(peers10.ARTEMIS_HOME, str(artemis_home()))
        patch.setattr(peers10, "MORE_ADDRESS_SETTINGS", "")
        title, command, port = peers10.make_artemis(peers10.ARTEMIS, scratch, None)
        broker = peers10.run(peers10.ARTEMIS, title, command, port, scratch)
    except (BrokerUnavailable, ClientMissingError) as reason:
        pytest.skip(str(reason))
    finally:
        patch.undo()
    yield f"amqp://guest:guest@127.0.0.1:{port}/?protocol=amqp10"
    processes.stop(broker.process)


async def test_messages_to_an_unknown_queue_are_there_for_the_receiver_that_comes_next(artemis: str) -> None:
    queue = fresh("orders")
    bodies = [b"%d" % number for number in range(10)]
    async with penstock.connect(artemis) as connection:
        result = await connection.publisher(queue).send_many(bodies)
        assert result.confirmed == 10
        async with connection.receiver(queue) as receiver:
            found = []
            while len(found) < 10 and (message := await receiver.receive(20)) is not None:
                found.append(message.body)
                message.accept()
        assert found == bodies


async def test_declarations_and_questions_fail_at_once_with_a_sentence(artemis: str) -> None:
    async with penstock.connect(artemis, timeout=600) as connection:
        for call, name in (
            (connection.declare_queue("q"), "queue.declare"),
            (connection.delete_queue("q"), "queue.delete"),
            (connection.purge_queue("q"), "queue.purge"),
            (connection.declare_exchange("e"), "exchange.declare"),
            (connection.bind("q", "e"), "queue.bind"),
            (connection.unbind("q", "e"), "queue.unbind"),
        ):
            with pytest.raises(penstock.ClientError, match=f"artemis has no service for {name} over AMQP 1.0"):
                await call
        with pytest.raises(penstock.ClientError, match="why is an operation of Penstock"):
            await connection.why("q")


async def test_call_to_a_queue_is_answered(artemis: str) -> None:
    queue = fresh("service")
    async with penstock.connect(artemis) as connection, connection.receiver(queue) as receiver:
        await connection.publisher(queue).send(b"first")
        message = await receiver.receive(20)
        assert message.body == b"first"
        message.accept()


async def test_consumer_window_is_kept_by_credit(artemis: str) -> None:
    queue = fresh("window")
    async with penstock.connect(artemis) as connection:
        await connection.publisher(queue).send_many([bytes(10_000)] * 100)
        async with connection.receiver(queue, consumerWindowSize="64KiB") as receiver:
            for _ in range(100):
                message = await receiver.receive(20)
                assert sum(len(each.body) for each in receiver._core().ready) <= 64 * 1024
                message.accept()
