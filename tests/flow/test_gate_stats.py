"""Who was blocked by what, since when, how often and for how long."""

from __future__ import annotations

from penstock.flow.gate_stats import DEPARTED_MAX, GateStats


def test_block_counts_once_until_it_ends_and_its_times_add_up() -> None:
    block = GateStats().entry(1, "p")
    assert block.begin(10.0)
    assert not block.begin(11.0)
    assert block.blocked_s(12.0) == 2.0
    block.end(13.0)
    block.end(14.0)
    assert block.begin(20.0)
    assert (block.times, block.blocked_s(21.0)) == (2, 4.0)
    assert block.as_dict(21.0, None)["blocked_for_s"] == 1.0


def test_entry_is_made_once_for_each_producer() -> None:
    book = GateStats()
    assert book.entry(1, "p") is book.entry(1, "p")
    assert book.entry(1, "p") is not book.entry(2, "p")


def test_producer_that_goes_away_leaves_a_summary_among_the_last() -> None:
    book = GateStats()
    for number in range(DEPARTED_MAX + 5):
        book.entry(number, f"p{number}").begin(0.0)
        book.depart(number, 1.0)
    book.depart(4711, 1.0)
    assert not book.blocks
    assert book.departed[0].producer == "p5"
    assert len(book.departed) == DEPARTED_MAX
    assert all(block.since is None and block.total_s == 1.0 for block in book.departed)


def test_book_of_a_gate_adds_up_how_long_it_was_closed() -> None:
    book = GateStats()
    book.closed(1.0)
    assert book.as_dict(3.0)["closed_for_s"] == 2.0
    book.opened(4.0)
    book.opened(5.0)
    book.closed(10.0)
    plain = book.as_dict(11.0)
    assert (plain["crossings"], plain["closed_s"]) == (2, 4.0)


def test_sums_of_a_gate_keep_what_closed_producers_had() -> None:
    book = GateStats()
    assert (book.sums(0.0).blocked, book.sums(0.0).blocked_s) == (0, 0.0)
    for number in range(DEPARTED_MAX + 5):
        block = book.entry(number, f"p{number}")
        block.begin(0.0)
        block.held, block.withheld, block.refused, block.late = 1, 2, 3, 4
        book.depart(number, 1.0)
    book.entry(4711, "present").begin(2.0)
    sums = book.sums(3.0)
    assert (sums.blocked, sums.blocked_s) == (1, DEPARTED_MAX + 6.0)
    assert (sums.held, sums.withheld, sums.refused, sums.late) == tuple(n * (DEPARTED_MAX + 5) for n in (1, 2, 3, 4))
