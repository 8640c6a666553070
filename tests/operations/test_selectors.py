"""The field `filter`: every operation with one refuses a bad selector in the same words, and is charged the parsing."""

from __future__ import annotations

import pytest

from penstock.content.selector.selector import LENGTH_MAX, LETTERS_A_UNIT
from penstock.driver.driver import BrokerDriver
from penstock.errors import InvalidField
from penstock.operations.selectors import FILTER, selector_of
from penstock.operations.table import OPERATIONS
from tests.support.operation_calls import ask, request_of

FILTERED = sorted({row.name for row in OPERATIONS if FILTER in row.fields})


def units(driver: BrokerDriver, operation: str, text: str) -> int:
    """Return the units of work of a request for an empty queue with a filter."""
    fields: dict[str, object] = {"queue": "a", "filter": text}
    if operation in ("queue.move", "queue.copy"):
        fields["target"] = "b"
    before = int(driver.broker.work.done)
    ask(driver, operation, fields, access=request_of(driver).access)
    return int(driver.broker.work.done) - before


@pytest.mark.parametrize("operation", FILTERED)
def test_long_filter_is_charged_to_the_request(driver: BrokerDriver, operation: str) -> None:
    for name in ("a", "b"):
        driver.broker.vhosts["/"].declare_queue(name, {}, False, False, None, None)
    text = f"kind = '{'x' * 4000}'"
    assert units(driver, operation, text) - units(driver, operation, "kind = 'x'") >= 3999 // LETTERS_A_UNIT


@pytest.mark.parametrize("operation", FILTERED)
def test_bad_filter_is_refused_with_its_name_and_place(driver: BrokerDriver, operation: str) -> None:
    for name in ("a", "b"):
        driver.broker.vhosts["/"].declare_queue(name, {}, False, False, None, None)
    with pytest.raises(InvalidField, match=r"^'filter' is not a selector: the selector is not valid at character 4"):
        units(driver, operation, "n >")


def test_filter_that_is_too_long_is_refused(driver: BrokerDriver) -> None:
    with pytest.raises(InvalidField, match=r"^'filter' is not a selector: the selector has 8,193 characters"):
        selector_of(driver, request_of(driver, filter="x" * (LENGTH_MAX + 1)))


@pytest.mark.parametrize("fields", [{}, {"filter": ""}, {"filter": "  "}])
def test_absent_or_empty_filter_selects_everything(driver: BrokerDriver, fields: dict[str, object]) -> None:
    assert selector_of(driver, request_of(driver, **fields)) is None
