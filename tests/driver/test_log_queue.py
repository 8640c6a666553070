"""Log queue: its bounds, and the refusals that it counts."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.driver.log_queue import LINE_MOST, LINES_KEPT, LogQueue
from penstock.protocols.common.log_line import LOGIN
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
