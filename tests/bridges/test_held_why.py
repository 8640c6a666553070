"""Questions of a bridge to its target: why it is held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock
from penstock.bridges.held_why import HeldWhy
from penstock.client.options import Options
from tests.support.brokers import BrokerProcess, serving, some_name


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("why")) as broker:
        yield broker


async def test_target_says_in_sentences_why_it_holds(broker: BrokerProcess) -> None:
    async with penstock.connect(broker.url, name="bridge-1") as connection:
        name = await connection.declare_queue(some_name("full"), capacity_messages=4)
        await connection.publisher(name).send_many(b"x" for _ in range(2))
        why = HeldWhy(Options(broker.url, {}), name)
        await why.ask("bridge-1")
        assert any(name in sentence for sentence in why.sentences), why.sentences
        await why.ask("bridge-1")
        assert why.sentences, "over the same connection"
        await why.close()
        assert why.sentences == []


async def test_target_that_is_not_there_says_nothing() -> None:
    why = HeldWhy(Options("amqp://guest:guest@127.0.0.1:1/", {}), "q")
    await why.ask("bridge")
    assert why.sentences == []
