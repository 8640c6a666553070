"""Where a consumer of a stream begins: the values that RabbitMQ takes, and the sentence for others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.errors import PreconditionFailed
from penstock.settings.stream_offset import OFFSET_MOST, read_offset

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ("next", 0, 0.0)),
        ("first", ("first", 0, 0.0)),
        ("last", ("last", 0, 0.0)),
        (b"next", ("next", 0, 0.0)),
        (0, ("number", 0, 0.0)),
        (OFFSET_MOST, ("number", OFFSET_MOST, 0.0)),
        ("1h", ("time", 0, NOW - 3600)),
        ("5m", ("time", 0, NOW - 300)),
        ("1M", ("time", 0, NOW - 30 * 86400)),
        ("7D", ("time", 0, NOW - 7 * 86400)),
        ("2Y", ("time", 0, NOW - 730 * 86400)),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), ("time", 0, NOW)),
        (datetime(2023, 11, 14, 22, 13, 20), ("time", 0, NOW)),  # noqa: DTZ001
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), ("time", 0, NOW)),
    ],
)
def test_offset_is_read(value: object, expected: tuple[str, int, float]) -> None:
    found = read_offset("c", "x-stream-offset", value, NOW)
    assert (found.kind, found.number, found.since) == expected


@pytest.mark.parametrize(
    "value", [-1, OFFSET_MOST + 1, True, 1.5, "", "frist", "FIRST", "5", "5x", "h", "-1h", [], {}, "1234567890123s"]
)
def test_invalid_offset_is_refused_in_one_sentence(value: object) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        read_offset("consumer 'c'", "x-stream-offset", value, NOW)
    text = str(refused.value)
    begin = (
        "consumer 'c': x-stream-offset must be first, last, next, an offset from 0 to 4611686018427387903, a timestamp"
    )
    assert text.startswith(begin)
    assert "\n" not in text
