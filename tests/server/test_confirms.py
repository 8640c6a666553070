"""Confirmations on the wire: each publish is answered exactly once, none too early, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually
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
        self.returned = 0
        self._told = 0

    def read_until(self, answered: int) -> None:
        """Read until so many publishes are answered."""
        while len(self.confirmed) + len(self.refused) < answered:
            self._read_one()

    def read_what_is_there(self) -> None:
        """Read everything that the broker has to say about what came before.

        Answers leave at once and confirmations at the end of a turn: the second answer is behind them.
        """
        for _ in range(2):
            self.peer.send(0, commands.Connection.UpdateSecret("s", "to know that all has been read"))
            while self._read_one():
                pass

    def _read_one(self) -> bool:
        _, method = self.peer.read_method()
        if isinstance(method, commands.Connection.UpdateSecretOk):
            return False
        if isinstance(method, commands.Basic.Return):
            self.returned += 1
            self.peer.read_frame()
            self.peer.read_frame()
        elif isinstance(method, commands.Basic.Ack | commands.Basic.Nack):
            self._note(method)
        else:
            assert isinstance(method, commands.Connection.Blocked | commands.Connection.Unblocked)
        return True

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


def test_all_fates_of_a_publish_are_answered_once(peer: Peer) -> None:
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


def test_confirm_is_withheld_behind_a_closed_gate_and_given_when_it_opens(peer: Peer) -> None:
    gated = peer.declare(**{"capacity-messages": 100, "stop-messages": 3, "resume-messages": 1, "hold-deadline": 0})
    answers = Answers(peer)
    peer.say(publish_frames(1, "", gated, b"x") * 10)
    answers.read_what_is_there()
    assert answers.confirmed == {1, 2, 3}
    peer.send(1, commands.Queue.Purge(queue=gated, nowait=True))
    answers.read_until(10)
    assert answers.confirmed == set(range(1, 11))
    assert answers.refused == set()


def test_channel_goes_on_beside_one_that_is_held(peer: Peer) -> None:
    full = peer.declare(**{"capacity-messages": 1, "hold-deadline": 0})
    free = peer.declare()
    peer.channel(2)
    peer.confirm(2)
    peer.say(publish_frames(1, "", full, b"x") * 5 + publish_frames(2, "", free, b"x") * 5)
    tags = []
    while len(tags) < 1 or tags[-1] < 5:
        channel, method = peer.read_method()
        if isinstance(method, commands.Basic.Ack):
            assert channel == 2, "nothing of channel 1 may be confirmed: its first is withheld, the others held"
            tags.append(method.delivery_tag)
    peer.ask(2, commands.Queue.Delete(queue=full), commands.Queue.DeleteOk)
    answers = Answers(peer)
    answers.read_until(5)
    assert answers.confirmed | answers.refused == {1, 2, 3, 4, 5}


def test_what_is_held_past_the_bound_of_a_connection_that_consumes_is_refused_at_once(peer: Peer) -> None:
    full = peer.declare(**{"capacity-bytes": 150_000, "hold-deadline": 0})
    other = peer.declare()
    peer.ask(1, commands.Basic.Consume(queue=other), commands.Basic.ConsumeOk)
    peer.say(publish_frames(1, "", full, bytes(100_000)) * 30)
    answers = Answers(peer)
    answers.read_until(15)
    answers.read_what_is_there()
    assert answers.confirmed == set() or answers.confirmed == {1}
    held = 30 - len(answers.confirmed) - len(answers.refused)
    assert 9 <= held <= 12, "one MiB may be held, and the first is withheld"
    assert answers.refused == set(range(31 - len(answers.refused), 31)), "those that came last"


def test_confirmations_of_a_connection_that_dies_are_nobodys(broker: BrokerProcess) -> None:
    with open_peer(broker) as keeper:
        keeper.ask(
            1,
            commands.Queue.Declare(queue="orphans", arguments={"capacity-messages": 2, "hold-deadline": 0}),
            commands.Queue.DeclareOk,
        )
        for _ in range(10):
            with open_peer(broker) as peer:
                peer.confirm()
                peer.say(publish_frames(1, "", "orphans", b"x") * 10)
                eventually(lambda: broker.queue("orphans")["blocked"], "it is blocked")
            eventually(lambda: not broker.queue("orphans")["blocked"], "no trace of it")
        view = broker.queue("orphans")
        assert (view["gate"]["waiting"], view["depth"]["messages"]) == (0, 2)
        keeper.ask(1, commands.Queue.Delete(queue="orphans"), commands.Queue.DeleteOk)
