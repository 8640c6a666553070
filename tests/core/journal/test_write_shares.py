"""Shares of the journal: clients above their share wait, and the bound follows the disk."""

from __future__ import annotations

import pytest

from penstock.core.journal.write_shares import (
    ALONE,
    BOUND_LEAST,
    BOUND_MOST,
    MEASURED_BYTES,
    TARGET_S,
    WriteListener,
    WriteShare,
    WriteShares,
)


class Waiting(WriteListener):
    def __init__(self) -> None:
        self.went_on = 0

    def on_taken(self) -> None:
        self.went_on += 1


def fill(shares: WriteShares, share: WriteShare, group: int = 1, step: int = 1024) -> int:
    """Record until the client is over its share; returns its bytes."""
    while not shares.is_over(share):
        shares.count(share, step, group)
    return int(share.bytes)


@pytest.mark.parametrize("users", [1, 2, 5])
def test_users_that_record_without_end_have_equal_shares_and_leave_a_share_free(users: int) -> None:
    shares = WriteShares()
    clients = [[WriteShare(f"u{number}") for _ in range(8)] for number in range(users)]
    for _ in range(20_000):
        for own in clients:
            for share in own:
                if not shares.is_over(share):
                    shares.count(share, 1024, 1)
    sums = [sum(int(share.bytes) for share in own) for own in clients]
    assert shares.users == {f"u{number}": found for number, found in enumerate(sums)}
    assert max(sums) - min(sums) <= 8 * 1024
    assert int(shares.bytes) <= int(shares.bound) * users // (users + 1) + users * 8 * 1024
    assert int(shares.bytes) >= int(shares.bound) * users // (users + 1) * 8 // 10
    assert not shares.is_over(WriteShare("newcomer"))
    newcomer = WriteShare("newcomer")
    shares.count(newcomer, 4096, 1)
    assert not shares.is_over(newcomer)


def test_connection_of_the_same_user_that_records_little_is_not_over_the_share() -> None:
    shares = WriteShares()
    hogs, neighbour = [WriteShare("shop") for _ in range(3)], WriteShare("shop")
    for hog in hogs:
        fill(shares, hog)
    shares.count(neighbour, 4096, 1)
    assert not shares.is_over(neighbour)


def test_single_client_has_the_whole_bound_until_another_client_records() -> None:
    shares = WriteShares()
    hog, other = WriteShare("a"), WriteShare("b")
    assert fill(shares, hog) <= BOUND_MOST // 4 + 1024
    for group in range(1, ALONE + 2):
        shares.take(group)
        shares.count(hog, 1, group + 1)
    assert BOUND_MOST < fill(shares, hog, ALONE + 2) <= BOUND_MOST + 2048
    shares.count(other, 1, ALONE + 2)
    assert shares.is_over(hog)
    assert not shares.is_over(other)


def test_transaction_ends_the_wait_of_the_writers_whose_groups_are_taken() -> None:
    shares = WriteShares()
    first, second = WriteShare("a"), WriteShare("b")
    fill(shares, first, 1)
    fill(shares, second, 2)
    waits = [Waiting(), Waiting()]
    for share, waiting in zip((first, second), waits, strict=True):
        shares.wait(share, waiting)
    shares.take(1)
    assert waits[0].went_on == 1
    shares.take(2)
    assert [waiting.went_on for waiting in waits] == [1, 1]
    assert (int(shares.bytes), shares.users, shares.has_waiting()) == (0, {}, False)
    assert first.entry is None
    assert second.listener is None


def test_store_that_cannot_be_written_ends_all_waits() -> None:
    shares = WriteShares()
    share, waiting = WriteShare("a"), Waiting()
    fill(shares, share)
    shares.wait(share, waiting)
    shares.release()
    assert waiting.went_on == 1
    assert shares.is_over(share), "its bytes count until they are taken"


@pytest.mark.parametrize(
    ("speed", "bound"),
    [(1_000_000, BOUND_LEAST), (200_000_000, int(200_000_000 * TARGET_S)), (10_000_000_000, BOUND_MOST)],
    ids=["slow", "usual", "fast"],
)
def test_bound_of_write_shares_is_the_disk_rate_times_the_target_time(speed: int, bound: int) -> None:
    shares = WriteShares()
    share = WriteShare("a")
    for group in range(1, 40):
        shares.count(share, MEASURED_BYTES, group)
        shares.take(group)
        shares.written(MEASURED_BYTES / speed)
    assert abs(int(shares.bound) - bound) < 0.01 * bound


def test_small_transaction_does_not_change_the_bound() -> None:
    shares = WriteShares()
    shares.count(WriteShare("a"), MEASURED_BYTES - 1, 1)
    shares.take(1)
    shares.written(1.0)
    assert shares.bound == BOUND_MOST
