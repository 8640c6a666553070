"""The simulation itself: time leaps, a deadlock is an error, a seed decides everything."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.simulated_client import Client
from tests.support.simulated_loop import Deadlock, SimLoop, simulate
from tests.support.simulated_network import connect


def test_hour_of_sleep_takes_no_time() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert simulate(1, main) == pytest.approx(3600)


def test_endless_wait_in_the_simulation_is_an_error() -> None:
    async def main(loop: SimLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        simulate(1, main)


async def _race(loop: SimLoop) -> list[int]:
    order: list[int] = []

    async def runner(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*[runner(number) for number in range(5)])
    return order


def test_seed_decides_the_order_of_ready_callbacks() -> None:
    assert simulate(1, _race) == simulate(1, _race)
    assert len({tuple(simulate(seed, _race)) for seed in range(5)}) > 1


class _Collector(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def test_simulated_bytes_keep_their_order_and_a_paused_peer_holds_the_sender() -> None:
    async def main(loop: SimLoop) -> None:
        sender, receiver = Client(loop, "sender"), _Collector()
        end = connect(loop, receiver, sender, 1)
        end.peer.pause_reading()
        data = bytes(range(256)) * 1000
        end.write(data)
        await asyncio.sleep(5)
        assert receiver.data == b""
        assert not sender.may_write.is_set()
        end.peer.resume_reading()
        await asyncio.sleep(5)
        assert receiver.data == data
        assert sender.may_write.is_set()
        end.close()
        await asyncio.sleep(1)
        assert receiver.lost
        assert sender.lost

    simulate(3, main)
