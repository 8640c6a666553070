"""The measurements of queues measure what they say."""

from bench import queues


def test_everything_goes_through_and_expires() -> None:
    plain, ranked = queues.priorities(200)
    assert plain > 0
    assert ranked > 0
    assert queues.expiring(500, 0.001) > 0


def test_an_idle_queue_costs_less_than_the_goal_where_that_applies() -> None:
    octets = queues.idle(5_000)
    assert octets > 500
    if queues.reason_to_skip() is None:
        assert octets < queues.IDLE_GOAL
