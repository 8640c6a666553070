"""Earlier deliveries of a message: deliveries and failures, counted in one number."""

from __future__ import annotations

from penstock.core.message import FAILURES_MAX, Envelope, Message, StoredMessage, TrackedMessage


def message() -> Message:
    return Message(Envelope("", "q"), b"", 10, 1, 0.0)


def test_new_message_is_neither_redelivered_nor_failed() -> None:
    for new in (
        message(),
        StoredMessage(Envelope("", "q"), b"", 10, 1, 0.0),
        TrackedMessage(Envelope("", "q"), b"", 10, 1, 0.0, None),
    ):
        assert (new.redelivered, new.failures) == (False, 0)


def test_released_message_is_redelivered_without_a_failure() -> None:
    released = message()
    released.mark_delivered()
    released.mark_delivered()
    assert (released.redelivered, released.failures) == (True, 0)


def test_failures_add_up_over_releases() -> None:
    released = message()
    released.mark_delivered()
    released.count_failure()
    assert (released.redelivered, released.failures) == (True, 1)
    released.mark_delivered()
    released.count_failure()
    assert (released.redelivered, released.failures) == (True, 2)


def test_failures_are_counted_up_to_the_maximum() -> None:
    failing = message()
    for _ in range(FAILURES_MAX + 2):
        failing.count_failure()
    assert failing.failures == FAILURES_MAX


def test_message_behind_a_tombstone_keeps_the_earlier_deliveries() -> None:
    expired = TrackedMessage(Envelope("", "q"), b"", 10, 1, 0.0, None)
    expired.mark_delivered()
    left = expired.leave_tombstone()
    assert (left.redelivered, left.failures) == (True, 0)


def test_envelope_has_an_entry_for_each_protocol_and_is_the_first_entry() -> None:
    envelope = Envelope("x", "k")
    first = envelope.encoded.entry(2)
    assert first is envelope.encoded
    first.encoded = b"frames"
    second, third = envelope.encoded.entry(0), envelope.encoded.entry(84)
    assert (second.encoded, third.encoded) == (b"", b"")
    second.encoded = b"sections"
    assert envelope.encoded.entry(2) is first
    assert envelope.encoded.entry(0) is second
    assert envelope.encoded.entry(84) is third
    assert envelope.variant(5, 1.0, True).encoded.entry(0).encoded == b"sections"
