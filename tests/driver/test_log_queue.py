"""Log queue: its bounds, and the refusals that it counts.

Unexpected exceptions: the traceback is logged once for each place, and the client hears of an internal error.
"""

from __future__ import annotations

from penstock.connections.log_line import LOGIN
from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver
from penstock.driver.log_queue import LINE_MOST, LINES_KEPT, LINES_MOST, PLACES_MOST, Failures, LogQueue
from penstock.flow.work import Steps
from penstock.logs.ids import INTERNAL_ERROR, lines_of
from penstock.wire.amqp091.codec import decode_method
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of
from tests.support.log_lines import texts


def test_log_queue_gives_lines_in_order_with_the_time_of_their_event() -> None:
    broker = Broker(Defaults())
    queue = LogQueue(broker)
    broker.begin(5.0)
    queue.add("first")
    broker.begin(6.0)
    queue.add("second")
    assert [(line.text, line.now) for line in queue.take(1)] == [("first", 5.0)]
    assert not queue.is_empty()
    assert [(line.text, line.now) for line in queue.take(1)] == [("second", 6.0)]
    assert queue.is_empty()


def test_log_queue_counts_lines_beyond_its_bound_and_says_so_after_the_last() -> None:
    queue = LogQueue(Broker(Defaults()))
    for number in range(LINES_KEPT + 3):
        queue.add(str(number))
    got = texts(queue)
    assert got[-2:] == [str(LINES_KEPT - 1), "3 log lines were dropped: too many at once"]
    assert texts(queue) == []


def test_log_queue_cuts_long_lines_and_escapes_control_characters() -> None:
    queue = LogQueue(Broker(Defaults()))
    queue.add("x" * (LINE_MOST + 1))
    queue.add("a\nb")
    long, escaped = texts(queue)
    assert len(long) == LINE_MOST
    assert "\n" not in escaped


def test_log_queue_has_one_line_of_refusals_a_second_and_then_their_number() -> None:
    broker = Broker(Defaults())
    queue = LogQueue(broker)
    for number in range(4):
        queue.add_refusal(LOGIN, f"refused {number}")
    assert texts(queue) == ["refused 0"]
    broker.begin(broker.now + 1.5)
    queue.tick()
    (line,) = texts(queue)
    assert line.startswith("refused 3")
    assert "2 more" in line


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


def test_place_has_its_traceback_once_and_then_some_lines_a_second(driver: BrokerDriver) -> None:
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
    again = texts(queue)
    assert len(again) == lines_of(INTERNAL_ERROR) - 1
    assert all(line.startswith("a list broke off with KeyError at ") for line in again)
    driver.begin(2.0)
    queue.tick()
    (line,) = texts(queue)
    assert line.endswith(f"(and {9 - len(again)} more since the last such line)")
    assert driver.failures.count == 11


def test_tracebacks_and_places_are_bounded(driver: BrokerDriver) -> None:
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
    closed = decode_method(cut(output_of(waiting.connection))[-1][2])
    assert (closed.name, closed.args["reply_code"]) == ("connection.close", 541)
    assert "a job broke off with an internal error (KeyError)" in str(closed.args["reply_text"])
    assert waiting.connection.busy == 0
