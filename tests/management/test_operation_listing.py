"""Lists of rows in steps."""

from __future__ import annotations

from penstock.flow.work import finish
from penstock.management.operation import ROW_WORK, lists_steps, rows_steps
from tests.support.driven_connection import make_driver


def test_rows_are_made_a_share_at_a_time() -> None:
    driver = make_driver()
    work = driver.broker.work
    work.limit = work.done + 10 * ROW_WORK
    steps = rows_steps(driver, range(20), lambda number: {"number": number})
    next(steps)
    assert work.used_up()
    work.limit = work.done + 1000 * ROW_WORK
    assert finish(steps) == [{"number": number} for number in range(20)]


def test_subject_without_rows_is_work_too() -> None:
    driver = make_driver()
    before = driver.broker.work.done
    assert finish(lists_steps(driver, range(7), lambda number: [])) == []
    assert driver.broker.work.done - before == 7 * ROW_WORK
