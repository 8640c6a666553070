"""Tallies of counts by RabbitMQ's keys."""

from __future__ import annotations

from penstock.flow.series import TALLY_KEYS, Tally


def counted(first: int) -> Tally:
    tally = Tally()
    for at, key in enumerate(TALLY_KEYS):
        setattr(tally, key, first + at)
    return tally


def test_tally_has_its_values_in_the_order_of_the_keys() -> None:
    assert counted(1).values() == list(range(1, len(TALLY_KEYS) + 1))


def test_tally_adds_and_subtracts_every_key() -> None:
    tally = counted(10)
    tally.add(counted(1))
    assert tally.values() == [11 + 2 * at for at in range(len(TALLY_KEYS))]
    assert tally.less(counted(1)).values() == counted(10).values()
