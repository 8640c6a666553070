"""Counts of a move between brokers, in words."""

from __future__ import annotations

import pytest

from penstock.cli.move_counts import MoveCounts


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (MoveCounts(moved=5, queues=2, looked_at=3), "5 messages moved, of 2 queues"),
        (
            MoveCounts(moved=1, queues=1, looked_at=1, unmatched=3),
            "1 message moved, of 1 queue; 3 not matched by the filter",
        ),
        (MoveCounts(), "no message moved: the target has no queues; `penstock definitions import` makes them"),
        (MoveCounts(looked_at=1), "no message moved: the queue is empty"),
        (MoveCounts(looked_at=4), "no message moved: all 4 queues are empty"),
        (MoveCounts(looked_at=1, unmatched=2), "no message moved; 2 not matched by the filter"),
        (MoveCounts(looked_at=1, refused=2, reasons=["full"]), "no message moved; 2 refused and left (full)"),
        (
            MoveCounts(absent=[f"q{number}" for number in range(7)]),
            "no message moved; 7 queues not moved, as the other broker has none: q0, q1, q2, q3, q4, ...",
        ),
        (
            MoveCounts(moved=500, queues=1, looked_at=1, doubtful=40),
            "500 messages moved, of 1 queue; 40 were on their way and may be in both queues",
        ),
        (MoveCounts(moved=1, queues=1, left_out={"CC": 1}), "1 message moved, of 1 queue; CC of 1 message is left out"),
    ],
)
def test_counts_are_a_sentence(counts: MoveCounts, sentence: str) -> None:
    assert counts.sentences() == sentence


def test_counts_are_numbers_and_names_as_json() -> None:
    answer = MoveCounts(moved=2, queues=1, streams=["log"], left_out={"CC": 1}).answer()
    assert (answer["moved"], answer["streams"], answer["left_out"]) == (2, ["log"], {"CC": 1})
