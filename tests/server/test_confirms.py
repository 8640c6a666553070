"""Confirmations on the wire: each publish is answered exactly once, and never too early."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess
from tests.support.raw_client import Peer, open_peer, publish_frames


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[Peer]:
    """A connection whose channel 1 is in confirm mode."""
    with open_peer(broker) as peer:
        peer.confirm()
        yield peer


class Answers:
    """What the broker has said about each publish of channel 1."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()

    def read_until(self, answered: int) -> None:
        """Read until so many publishes are answered."""
        while len(self.confirmed) + len(self.refused) < answered:
            self._read_one()

    def _read_one(self) -> None:
        _, method = self.peer.read_method()
        assert isinstance(method, commands.Basic.Ack | commands.Basic.Nack)
        self._note(method)

    def _note(self, method: commands.Basic.Ack | commands.Basic.Nack) -> None:
        tag = method.delivery_tag
        assert tag is not None
        into = self.confirmed if isinstance(method, commands.Basic.Ack) else self.refused
        first = min(set(range(1, tag + 1)) - self.confirmed - self.refused, default=tag) if method.multiple else tag
        for number in range(first, tag + 1):
            assert number not in self.confirmed, f"{number} was confirmed before"
            if number not in self.refused:
                into.add(number)
            else:
                assert method.multiple


def test_window_of_publishes_is_confirmed_in_few_frames_and_each_once(peer: Peer, queue: str) -> None:
    answers = Answers(peer)
    for window in range(10):
        peer.say(publish_frames(1, "", queue, b"x") * 100)
        answers.read_until(100 * (window + 1))
    assert answers.confirmed == set(range(1, 1001))
    assert answers.refused == set()


def test_publish_of_each_fate_is_answered_once(peer: Peer) -> None:
    good = peer.declare()
    full = peer.declare(**{"capacity-messages": 2, "overflow": "reject"})
    said, refused = b"", set()
    for number in range(1, 301):
        queue = (good, full, "no-such-queue")[number % 3]
        if queue == full and number > 4:
            refused.add(number)
        said += publish_frames(1, "", queue, b"x")
    peer.say(said)
    answers = Answers(peer)
    answers.read_until(300)
    assert answers.refused == refused
    assert answers.confirmed == set(range(1, 301)) - refused
