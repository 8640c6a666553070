"""Delays in headers: absent and negative ones, texts of numbers, and values that are refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.content.delay import DELAY_MS_MAX, checked_delay_ms, header_delay_ms
from penstock.errors import PreconditionFailed


@pytest.mark.parametrize(
    ("headers", "delay_ms"),
    [
        ({}, 0),
        ({"x-delay": 0}, 0),
        ({"x-delay": -1}, 0),
        ({"x-delay": "-1"}, 0),
        ({"x-delay": 1500}, 1500),
        ({"x-delay": "1500"}, 1500),
        ({"x-delay": DELAY_MS_MAX}, DELAY_MS_MAX),
        ({"X-Delay": 5}, 0),
    ],
)
def test_header_gives_its_milliseconds_and_none_if_it_is_not_positive(
    headers: dict[str, object], delay_ms: int
) -> None:
    assert header_delay_ms(headers) == delay_ms


@pytest.mark.parametrize("value", ["", "-", "--1", "+1", " 1", "1.0", "1e3", "٣", "9" * 21, "soon"])
def test_text_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(PreconditionFailed, match="header x-delay is '"):
        header_delay_ms({"x-delay": value})


@pytest.mark.parametrize("value", [DELAY_MS_MAX + 1, 1 << 63, 1.5, True, False, None, b"5", [5], {}, Decimal("1.5")])
def test_value_that_is_no_delay_is_refused_with_the_rule(value: object) -> None:
    with pytest.raises(PreconditionFailed, match=f"invalid message: it is .*; a delay .* at most {DELAY_MS_MAX}$"):
        checked_delay_ms("it", value)
