"""The measurements of queues, small: priorities and expiry."""

import subprocess
import sys

from bench import queues


def test_measurements_of_priorities_and_expiry_have_results() -> None:
    plain, ranked = queues.priorities(200)
    assert plain > 0
    assert ranked > 0
    assert queues.expiring(500, 0.001) > 0


def test_idle_queue_costs_less_than_the_goal_where_that_applies() -> None:
    """In a process of its own: memory that earlier tests have freed would be used again, and not be seen."""
    words = [sys.executable, "-c", "from bench import queues; print(queues.idle(5_000))"]
    octets = float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert octets > 500
    if queues.reason_to_skip() is None:
        assert octets < queues.IDLE_GOAL
