"""Facts about the process of a server: samples that a thread reads, and figures of the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial

import pytest

from penstock import Broker
from penstock.flow.wait import Wait
from penstock.management.process_facts import NO_SAMPLE, ProcessSample
from penstock.server import process_facts
from penstock.server.process_facts import ServerFacts, read_sample, used_memory
from tests.support.brokers import in_process


async def over(wait: Wait) -> None:
    """Return at the end of a wait."""
    known = asyncio.get_running_loop().create_future()
    wait.subscribe(partial(known.set_result, None))
    await known


def facts_of(broker: Broker) -> ServerFacts:
    facts = broker.driver.process
    assert isinstance(facts, ServerFacts)
    return facts


async def test_facts_of_a_server_are_those_of_its_process_and_loop() -> None:
    async with in_process() as broker:
        facts = facts_of(broker)
        assert (facts.pid, facts.obstacle(), facts.sockets()) == (os.getpid(), "", 0)
        assert ("amqp", *broker.addresses[0]) in facts.listeners
        assert facts.uptime_s() >= 0.0
        _, writer = await asyncio.open_connection(*broker.addresses[0])
        while not facts.sockets():  # noqa: ASYNC110 - a pass of the loop is what is meant.
            await asyncio.sleep(0)
        writer.close()
        broker.shard.event_loop.readiness.obstacle = "it is stopping"
        assert facts.obstacle() == "it is stopping"


async def test_sample_is_read_in_a_thread_and_shared_by_requests_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[int] = []

    def read() -> ProcessSample:
        readers.append(threading.get_ident())
        return read_sample()

    monkeypatch.setattr(process_facts, "read_sample", read)
    async with in_process() as broker:
        facts = facts_of(broker)
        assert facts.last == NO_SAMPLE
        waits = [facts.sample() for _ in range(5)]
        assert len({id(wait) for wait in waits}) == 1
        await over(waits[0])
        assert len(readers) == 1
        assert readers[0] != threading.get_ident()
        sample = facts.last
        assert 0 < sample.open_files <= sample.files_max
        assert 1 << 20 < sample.memory_used <= sample.memory_max
        assert sample.threads >= 1
        assert sample.processors >= 1
        await over(facts.sample())
        assert len(readers) == 2


async def test_sample_that_cannot_be_read_is_reported_and_the_last_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_process() as broker:
        facts = facts_of(broker)
        await over(facts.sample())
        before = facts.last

        def fail() -> ProcessSample:
            raise RuntimeError("no thread has this")

        monkeypatch.setattr(process_facts, "read_sample", fail)
        reported = broker.driver.failures.count
        await over(facts.sample())
        assert (facts.last, broker.driver.failures.count) == (before, reported + 1)


def test_used_memory_is_that_of_the_pages_in_memory() -> None:
    before = used_memory()
    held = bytearray(b"x" * (32 << 20))
    assert used_memory() - before > 16 << 20
    del held
