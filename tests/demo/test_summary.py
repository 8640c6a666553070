"""A batch in one message, and in one line."""

import json

import pytest

from demo.summary import in_words, summarised

GROUPS = [
    {"carrier": "UA", "hour": 6, "flights": 5, "cancelled": 1, "departure_delay": 40},
    {"carrier": "AA", "hour": 17, "flights": 2, "cancelled": 0, "departure_delay": 60},
    {"carrier": "EV", "hour": 20, "flights": 1, "cancelled": 1, "departure_delay": 0},
]


def test_summary_leaves_cancelled_flights_out_of_the_mean():
    summary = summarised(7, GROUPS)
    assert (summary["flights"], summary["cancelled"]) == (8, 2)
    assert summary["mean_delay"] == pytest.approx(100 / 6, abs=0.01)
    assert summary["latest"] == {"carrier": "AA", "hour": 17, "mean_delay": 30.0}


def test_summary_reads_as_a_line():
    line = in_words(json.dumps(summarised(7, GROUPS)).encode())
    expected = "batch   7:      8 flights,    2 cancelled,  16.7 min late on average; latest: AA at 17:00, 30 min"
    assert line == expected


def test_batch_in_which_nothing_departed_has_no_mean():
    line = in_words(json.dumps(summarised(0, GROUPS[2:])).encode())
    assert line == "batch   0:      1 flights,    1 cancelled"
