"""Words of commands that transfer messages: positions, conditions, and the preview of a redrive."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.operations.command_transfers import PREVIEW, TRANSFERS, positions, previewed

ROWS = {row.path: row for row in TRANSFERS}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), None),
        (("5",), [5]),
        (("5,7", "9"), [5, 7, 9]),
        (("10-12, 20",), [10, 11, 12, 20]),
        (("1-1000",), list(range(1, 1001))),
    ],
)
def test_positions_are_numbers_and_ranges(words: tuple[str, ...], found: list[int] | None) -> None:
    assert positions(words) == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("x",), "--positions 'x' is no position: write numbers and ranges, such as 5,7,10-19"),
        (("5,",), "--positions '' is no position"),
        (("5-",), "--positions '5-' is no range|--positions '5-' is no position"),
        (("-5",), "--positions '-5' is no position"),
        (("0",), "--positions '0' is no range: positions begin with 1"),
        (("9-5",), "--positions '9-5' is no range"),
        (("1-1001",), "--positions has more than 1,000 positions"),
        (("1-999", "2000,2001"), "--positions has more than 1,000 positions"),
        (("9" * 30,), "is no position"),
    ],
)
def test_invalid_positions_are_refused_before_they_are_counted(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        positions(words)


def given(**changed: Any) -> dict[str, Any]:
    every: dict[str, Any] = {
        "queue": "failed", "target": None, "to": None, "count": None, "filter": None, "key": None, "header": [],
        "body": None, "reason": None, "positions": None, "rate": None, "detach": False, "trust_headers": False,
        "dry_run": False,
    }  # fmt: skip
    return {**every, **changed}


def request(path: str, **changed: Any) -> tuple[str, dict[str, Any]]:
    row = ROWS[path]
    assert row.request is not None
    names = {field.name for field in row.fields}
    return row.request({name: value for name, value in given(**changed).items() if name in names})


def test_conditions_that_are_not_given_are_left_out_of_the_request() -> None:
    assert request("queues redrive") == ("queue.redrive", {"queue": "failed"})
    chosen = {"header": ["a=1"], "body": "x", "reason": "rejected", "key": "eu.*", "positions": [5], "count": 3}
    assert request("queues move", target="orders", **chosen) == (
        "queue.move",
        {"queue": "failed", "target": "orders", **chosen},
    )
    assert request("messages delete", positions=[1, 2]) == ("messages.delete", {"queue": "failed", "positions": [1, 2]})
    assert request("queues copy", to="logs/eu") == (
        "queue.copy",
        {"queue": "failed", "exchange": "logs", "routing_key": "eu"},
    )


def test_dry_run_of_a_redrive_asks_for_its_preview() -> None:
    asked = request("queues redrive", dry_run=True, trust_headers=True, reason="expired")
    assert asked == (PREVIEW, {"queue": "failed", "trust_headers": True, "reason": "expired"})
    with pytest.raises(ConfigError, match="--dry-run has no job: leave out --detach"):
        request("queues redrive", dry_run=True, detach=True)


def test_preview_says_what_happens_at_each_target_and_what_stays() -> None:
    answer = {
        "queue": "failed",
        "reasons": {"rejected": 4, "unknown": 1},
        "targets": [{"queue": "orders", "messages": 3, "bytes": 2048, "text": "they go in at once"}],
        "others": 0,
        "left": [{"reason": "queue 'gone' does not exist", "queue": "gone", "messages": 1}],
        "unmatched": 2,
        "examined": 7,
        "unread": 9,
    }
    assert list(previewed(answer)) == [
        "7 messages of queue 'failed' examined (4 rejected, 1 unknown); nothing is moved",
        "to queue 'orders': 3 messages, 2.0 KiB: they go in at once",
        "1 message would stay: queue 'gone' does not exist",
        "2 messages not matched by the filter",
        "9 messages not examined: on the disk, or beyond the first ones",
    ]
