"""Unexpected exceptions: the traceback is logged once for each place, and the client hears of an internal error."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.driver.log_queue import LINES_MOST, PLACES_MOST, Failures
from penstock.flow.work import Steps
from penstock.wire.amqp091.codec import decode_method
from tests.support.driven_connection import Dialogue, cut, make_driver
from tests.support.log_lines import texts


def fail(causes: int = 0) -> None:
    error = KeyError("hush")
    at = error
    for _ in range(causes):
        at.__cause__ = KeyError("cause")
        at = at.__cause__
    raise error


def report(failures: Failures, causes: int = 0) -> str:
    try:
        fail(causes)
    except KeyError as error:
        return str(failures.report("a list", error))
    raise AssertionError


def test_place_has_its_traceback_once_and_then_a_line_a_second() -> None:
    driver = make_driver()
    queue = driver.log_queue
    told = report(driver.failures)
    assert told == "a list broke off with an internal error (KeyError); the log has more"
    lines = texts(queue)
    assert lines[0].startswith("a list broke off with KeyError at ")
    assert lines[0].endswith("; please report this:")
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'hush'"
    for _ in range(10):
        report(driver.failures)
    (line,) = texts(queue)
    assert line.startswith("a list broke off with KeyError at ")
    driver.begin(2.0)
    queue.tick()
    (line,) = texts(queue)
    assert line.endswith("(and 8 more since the last such line)")
    assert driver.failures.count == 11


def test_tracebacks_and_places_are_bounded() -> None:
    driver = make_driver()
    report(driver.failures, causes=LINES_MOST)
    assert len(texts(driver.log_queue)) == LINES_MOST + 1
    for number in range(PLACES_MOST):
        kind = type(f"Odd{number}", (Exception,), {})
        driver.failures.report("a job", kind("odd"))
    texts(driver.log_queue)
    driver.failures.report("a job", OSError("one more"))
    assert [line for line in texts(driver.log_queue) if "Traceback" in line or "report this" in line] == []


def broken() -> Steps[None]:
    yield
    fail()


def whole(done: list[int]) -> Steps[None]:
    yield
    done.append(1)


def test_job_that_raises_closes_its_connection_and_the_next_one_runs() -> None:
    driver: BrokerDriver = make_driver()
    waiting = Dialogue(driver)
    waiting.connection.take_output()
    done: list[int] = []
    driver.scheduler.start(broken(), waiting.connection)
    driver.scheduler.start(broken())
    driver.scheduler.start(whole(done))
    while driver.scheduler.has_jobs():
        driver.run_turn()
    assert done == [1]
    closed = decode_method(cut(waiting.connection.take_output())[-1][2])
    assert (closed.name, closed.args["reply_code"]) == ("connection.close", 541)
    assert "a job broke off with an internal error (KeyError)" in str(closed.args["reply_text"])
    assert waiting.connection.busy == 0
