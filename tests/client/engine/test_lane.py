"""Replay after a reconnect: with a mark, after the loss of a mark, and with a wait for credit."""

from __future__ import annotations

import pytest

import penstock
from penstock.client.engine.connection import Engine
from penstock.client.engine.lane import WINDOW_MAX
from penstock.client.engine.outcomes import Receipt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.terms import ConnectionTerms, PublisherTerms

pytestmark = pytest.mark.skipif(penstock.compiled(), reason="a compiled class has no interpreted subclasses")

TERMS = ConnectionTerms(producer="p")


class Silent(PublisherCore):
    """A publisher that keeps what it would write."""

    def __init__(self, **terms: object) -> None:
        super().__init__(Engine(TERMS), PublisherTerms(**terms))  # type: ignore[arg-type]  # Fields by name.
        self.written: list[bytes] = []
        self.go_on_from(False, 0, [])

    def write(self, body: bytes) -> None:
        self.written.append(body)

    def reconnect(self, credit: int, taken: int, refused: list[int], is_known: bool = True) -> list[bytes]:
        """Lose the connection and go on with the broker's answer; return what is written then."""
        self.lose()
        self.written = []
        self.credit = credit
        self.lane.request(1)
        self.go_on_from(is_known, taken, refused)
        return self.written


def publish(publisher: Silent, *bodies: bytes) -> list[Receipt]:
    return [publisher.publish(body) for body in bodies]


def states(receipts: list[Receipt]) -> list[str]:
    return [receipt.state for receipt in receipts]


def test_mark_decides_taken_and_refused_messages_and_the_rest_is_sent_again() -> None:
    publisher = Silent()
    receipts = publish(publisher, b"1", b"2", b"3", b"4", b"5", b"6")
    assert publisher.reconnect(100, 4, [2, 6]) == [b"5"]
    assert states(receipts) == ["confirmed", "refused", "confirmed", "confirmed", "on the wire", "refused"]
    assert receipts[1].reason == "refused before the connection was lost"
    receipts += publish(publisher, b"7", b"8")
    assert publisher.reconnect(100, 6, []) == [b"8"], "numbers go on over all connections"
    assert states(receipts)[4:] == ["confirmed", "refused", "confirmed", "on the wire"]


def test_mark_behind_the_last_mark_resends_all() -> None:
    publisher = Silent()
    publish(publisher, b"1", b"2")
    assert publisher.reconnect(100, 1, []) == [b"2"]
    publish(publisher, b"3")
    assert publisher.reconnect(100, 0, []) == [b"2", b"3"], "transient messages were lost by a restart"


def test_replay_that_waits_for_credit_sends_every_message_once() -> None:
    publisher = Silent()
    publish(publisher, b"1", b"2", b"3", b"4")
    assert publisher.reconnect(2, 0, []) == [b"1", b"2"]
    publisher.settle(1, 1, 1)
    publisher.credit = 2
    publisher.review()
    assert publisher.written == [b"1", b"2", b"3", b"4"]
    assert publisher.replay_at == -1


@pytest.mark.parametrize("again", [True, False])
def test_lost_mark_is_reported_and_an_option_decides_about_the_messages(again: bool) -> None:
    publisher = Silent(sends_uncertain=again)
    receipts = publish(publisher, b"1", b"2")
    assert publisher.reconnect(100, 0, [], is_known=False) == ([b"1", b"2"] if again else [])
    [event] = publisher.engine.events
    assert event.kind == "replay uncertain"
    assert ("2 messages are sent again" in event.reason) is again
    assert event.receipts == tuple(receipts)
    assert states(receipts) == ["on the wire" if again else "unknown"] * 2
    if not again:
        with pytest.raises(penstock.ReplayUncertain) as failure:
            receipts[0].check()
        assert failure.value.receipt is receipts[0]


def test_publisher_with_a_larger_window_has_no_lane() -> None:
    engine = Engine(TERMS)
    assert PublisherCore(engine, PublisherTerms(window=WINDOW_MAX)).lane is not None
    assert PublisherCore(engine, PublisherTerms(window=WINDOW_MAX + 1)).lane is None
