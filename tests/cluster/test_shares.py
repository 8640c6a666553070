"""Shares of the machine: they add up to no more than the machine, whoever comes or goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.shares import Shares, share_of
from penstock.server.shard import Allowance

MACHINE = Allowance(1 << 34, 1_024)


@given(st.integers(0, 1 << 50), st.integers(1, 100))
def test_shares_of_all_shards_are_no_more_than_the_machine(memory: int, shards: int) -> None:
    share = share_of(Allowance(memory, 1_024), shards)
    assert memory - shards < share.memory_bytes * shards <= memory
    assert (share.open_files, share.shards) == (1_024, shards)


def test_single_shard_has_the_whole_machine() -> None:
    assert share_of(MACHINE, 1) == MACHINE
    assert share_of(MACHINE, 0) == MACHINE


class Told:
    """Shares as shards have heard them."""

    def __init__(self) -> None:
        self.shares: dict[str, list[int]] = {}
        self.deaf: set[str] = set()

    def tell(self, name: str, share: Allowance) -> bool:
        if name in self.deaf:
            return False
        self.shares.setdefault(name, []).append(share.shards)
        return True


@pytest.fixture
def told() -> Told:
    return Told()


def test_shares_shrink_when_a_shard_comes_and_grow_when_one_goes(told: Told) -> None:
    shares = Shares(MACHINE, told.tell)
    shares.add("1")
    shares.add("west")
    shares.add("east")
    assert told.shares == {"1": [2, 3], "west": [3]}  # A new shard begins with its share.
    shares.remove("west")
    assert told.shares == {"1": [2, 3, 2], "west": [3], "east": [2]}
    shares.remove("unknown")
    assert told.shares["1"] == [2, 3, 2]


def test_shard_that_could_not_be_told_is_told_later(told: Told) -> None:
    shares = Shares(MACHINE, told.tell)
    shares.add("1")
    told.deaf.add("1")
    shares.add("west")
    assert told.shares == {}
    told.deaf.clear()
    shares.send_all()
    shares.send_all()
    assert told.shares == {"1": [2]}


def test_process_that_starts_has_the_present_share(told: Told) -> None:
    shares = Shares(MACHINE, told.tell)
    shares.add("1")
    told.deaf.add("1")
    shares.add("west")
    told.deaf.clear()
    shares.begin("1")
    shares.send_all()
    assert told.shares == {}
