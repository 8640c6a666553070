"""Pauses before attempts to connect again."""

from __future__ import annotations

from penstock.client.options import Options
from penstock.client.pauses import LASTING, Pauses


def pauses_of(attempts: int = -1) -> Pauses:
    fields = {"reconnect_delay": 1.0, "reconnect_delay_max": 4.0}
    return Pauses(
        Options("amqp://127.0.0.1/", fields | ({} if attempts < 0 else {"reconnect_attempts": attempts})), 0.0
    )


def within(pauses: Pauses, longest: list[float]) -> bool:
    return all(most / 2 <= (pauses.next() or 0.0) <= most for most in longest)


def test_pauses_double_up_to_the_longest() -> None:
    pauses = pauses_of()
    pauses.lost(0.0)
    assert within(pauses, [1.0, 2.0, 4.0, 4.0])


def test_attempts_end_after_their_number_and_begin_anew_with_a_loss() -> None:
    pauses = pauses_of(attempts=2)
    for now in (0.0, 1.0):
        pauses.lost(now)
        assert [pauses.next() is None for _ in range(3)] == [False, False, True]


def test_connection_that_is_lost_at_once_again_has_a_longer_pause() -> None:
    pauses = pauses_of()
    for most in (1.0, 2.0, 4.0, 4.0):
        pauses.lost(0.0)
        assert within(pauses, [most])
        pauses.opened(0.0)


def test_connection_that_has_lasted_begins_with_the_first_pause_again() -> None:
    pauses = pauses_of()
    pauses.lost(0.0)
    assert within(pauses, [1.0, 2.0])
    pauses.opened(10.0)
    pauses.lost(10.0 + LASTING * 4.0)
    assert within(pauses, [1.0])
