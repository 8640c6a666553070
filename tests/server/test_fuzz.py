"""Random bytes, from seeds: the broker lives, and so does another connection."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess
from tests.support.raw_client import GoneError, Peer, method_frame, open_peer, peer_of, publish_frames, raw_frame

ROUNDS = 60


@pytest.fixture(scope="module")
def neighbour(broker: BrokerProcess) -> Iterator[Peer]:
    """Lives from the first test to the last."""
    with open_peer(broker) as peer:
        yield peer
        assert peer.is_well()


def noise(chance: random.Random) -> bytes:
    """Return octets without any order."""
    return chance.randbytes(chance.randrange(1, 400))


def noise_in_a_frame(chance: random.Random) -> bytes:
    """Return a right frame with a wrong inside."""
    return raw_frame(chance.choice([1, 1, 1, 2, 3, 8]), chance.choice([0, 1, 1, 1, 2]), noise(chance))


def a_method_with_noise(chance: random.Random) -> bytes:
    """Return a method that exists with arguments that are noise."""
    index = chance.choice(list(commands.INDEX_MAPPING))
    return raw_frame(1, chance.choice([0, 1, 1, 1]), struct.pack(">I", index) + noise(chance)[: chance.randrange(30)])


def a_good_conversation_with_one_octet_changed(chance: random.Random) -> bytes:
    """Return what a client would say, but for one octet."""
    said = bytearray(
        method_frame(1, commands.Queue.Declare(queue="fuzz", exclusive=True, arguments={"capacity-bytes": 9000}))
        + method_frame(
            1, commands.Queue.Bind(queue="fuzz", exchange="amq.headers", arguments={"x-match": "any", "a": 1})
        )
        + method_frame(1, commands.Confirm.Select())
        + method_frame(1, commands.Basic.Consume(queue="fuzz", consumer_tag="c"))
        + publish_frames(1, "amq.headers", "fuzz", b"body", {"headers": {"a": 1, "b": [1, {"c": "d"}]}, "priority": 3})
        + publish_frames(1, "", "fuzz", bytes(200), {"content_type": "text/plain"})
        + method_frame(1, commands.Basic.Ack(1, multiple=True))
        + method_frame(1, commands.Basic.Nack(2))
        + method_frame(1, commands.Basic.Cancel("c"))
        + method_frame(1, commands.Queue.Delete(queue="fuzz"))
    )
    said[chance.randrange(len(said))] = chance.randrange(256)
    return bytes(said)


def a_good_conversation_in_another_order(chance: random.Random) -> bytes:
    """Return whole frames that are right by themselves, shuffled."""
    frames = [
        method_frame(1, commands.Queue.Declare(queue="shuffled", exclusive=True, arguments={"capacity-messages": 2})),
        method_frame(1, commands.Confirm.Select()),
        method_frame(1, commands.Basic.Consume(queue="shuffled", consumer_tag="c")),
        method_frame(1, commands.Channel.Close(200, "", 0, 0)),
        method_frame(1, commands.Channel.CloseOk()),
        method_frame(1, commands.Channel.Open()),
        method_frame(1, commands.Channel.Flow(active=False)),
        method_frame(1, commands.Basic.Get(queue="shuffled")),
        method_frame(1, commands.Basic.Recover(requeue=True)),
        method_frame(1, commands.Basic.Ack(0, multiple=True)),
        method_frame(1, commands.Queue.Delete(queue="shuffled")),
        method_frame(0, commands.Connection.CloseOk()),
        *[publish_frames(1, "", "shuffled", b"x" * size) for size in (0, 1, 500, 5000)],
        *[publish_frames(1, "penstock.control", operation, b"{}") for operation in ("status", "why", "cursor.plan")],
    ]
    return b"".join(chance.choices(frames, k=40))


KINDS = [
    noise,
    noise_in_a_frame,
    a_method_with_noise,
    a_good_conversation_with_one_octet_changed,
    a_good_conversation_in_another_order,
]


def survived(neighbour: Peer, peer: Peer, said: bytes) -> bool:
    """Say it, hear what comes, and tell whether another connection is well."""
    with suppress(GoneError, TimeoutError, ConnectionError):
        peer.say(said)
        while True:
            peer.read_frame(0.01)
    return neighbour.is_well()


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_noise_ends_no_more_than_its_own_connection(
    broker: BrokerProcess, neighbour: Peer, make: Callable[[random.Random], bytes]
) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"{make.__name__} {seed}")
        with open_peer(broker) as peer:
            said = b"".join(make(chance) for _ in range(chance.randrange(1, 6)))
            assert survived(neighbour, peer, said), f"seed {seed}"
    assert "Traceback" not in broker.log(), make.__name__


def test_noise_instead_of_a_negotiation_ends_no_more_than_its_own_connection(
    broker: BrokerProcess, neighbour: Peer
) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        with peer_of(broker) as peer:
            peer.greet()
            assert survived(neighbour, peer, noise_in_a_frame(chance) + noise(chance)), f"seed {seed}"
    assert "Traceback" not in broker.log()
