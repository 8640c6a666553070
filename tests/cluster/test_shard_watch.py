"""Watch over a shard: pauses between starts, the end of the attempts, silence, and what people read of it."""

from __future__ import annotations

from penstock.cluster.shard_watch import AWAY, IN_ORDER, SERVING, STARTING, STOPPED, STOPPING, Patience, ShardWatch

PATIENCE = Patience()


def serving(now: float = 0.0) -> ShardWatch:
    watch = ShardWatch("north", now)
    assert watch.is_due(now)
    watch.begin(now)
    assert (watch.state, watch.is_due(now)) == (STARTING, False)
    assert watch.serve(now)
    assert watch.state == SERVING
    assert not watch.serve(now)
    return watch


def died(watch: ShardWatch, now: float) -> None:
    watch.end(now, "was killed by signal 9")


def test_first_death_starts_the_shard_again_at_once() -> None:
    watch = serving()
    died(watch, 100.0)
    assert (watch.state, watch.is_due(100.0)) == (AWAY, True)


def test_deaths_in_a_minute_lengthen_the_pause_and_then_end_the_attempts() -> None:
    watch, now = serving(), 100.0
    for pause in PATIENCE.pauses_s:
        died(watch, now)
        assert watch.is_due(now + pause)
        assert not watch.is_due(now + pause - 0.01)
        now += pause
        watch.begin(now)
        watch.serve(now)
    died(watch, now)
    assert watch.state == STOPPED
    assert not watch.is_due(now + 1_000_000)
    assert watch.sentence(now) == (
        "shard 'north' is stopped: it died 5 times in 60 s, the last time it was killed by signal 9"
    )


def test_deaths_more_than_a_minute_apart_are_restarted_at_once_for_ever() -> None:
    watch, now = serving(), 0.0
    for _ in range(20):
        now += 61.0
        died(watch, now)
        assert watch.is_due(now)
        watch.begin(now)
        watch.serve(now)


def test_stopped_shard_that_is_revived_has_its_attempts_again() -> None:
    watch = serving()
    for _ in range(4):
        died(watch, 1.0)
        watch.begin(1.0)
    died(watch, 1.0)
    watch.revive(2.0)
    assert watch.is_due(2.0)
    watch.begin(2.0)
    died(watch, 3.0)
    assert watch.is_due(3.0)


def test_serving_shard_is_not_revived() -> None:
    watch = serving()
    watch.revive(1.0)
    assert watch.state == SERVING


def test_silent_shard_is_killed_after_ten_seconds_with_the_reason() -> None:
    watch = serving()
    assert [watch.tick(second) for second in range(1, 11)] == [False] * 9 + [True]
    died(watch, 10.0)
    assert watch.cause == "was killed by signal 9: it had not answered for 10 s"
    assert watch.sentence(12.0) == (
        "shard 'north' has been away for 2 s, and is started again: it was killed by signal 9: "
        "it had not answered for 10 s"
    )


def test_answer_ends_the_silence() -> None:
    watch = serving()
    for second in range(1, 100):
        assert not watch.tick(second)
        if second % 9 == 0:
            watch.hear()


def test_shard_that_starts_must_answer_too() -> None:
    watch = ShardWatch("north", 0.0)
    watch.begin(0.0)
    assert any(watch.tick(second) for second in range(1, 11))


def test_suspended_node_does_not_take_its_pause_for_silence() -> None:
    watch = serving()
    assert not watch.tick(3600.0)
    assert not watch.tick(3601.0)
    watch.hear()
    assert not watch.tick(3602.0)


def test_clock_that_goes_back_counts_no_silence() -> None:
    watch = serving(100.0)
    assert not any(watch.tick(second) for second in range(99, 0, -1))


def test_shard_without_a_process_is_never_killed() -> None:
    watch = ShardWatch("north", 0.0)
    assert not any(watch.tick(second) for second in range(100))


def test_shard_that_stops_is_not_started_again() -> None:
    watch = serving()
    watch.stop(1.0)
    assert watch.state == STOPPING
    watch.end(2.0, "ended with status 0")
    assert (watch.state, watch.is_due(1_000.0)) == (STOPPED, False)
    assert watch.sentence(5.0) == "shard 'north' has been stopped for 3 s"


def test_shard_that_does_not_stop_is_killed_with_the_reason() -> None:
    watch = serving()
    watch.stop(0.0)
    for second in range(1, 30):
        watch.hear()
        assert not watch.tick(second)
    watch.hear()
    assert watch.tick(30.0)
    died(watch, 30.0)
    assert watch.cause == "was killed by signal 9: it had not ended 30 s after the request to stop"


def test_shard_that_is_away_stops_at_once() -> None:
    watch = serving()
    died(watch, 1.0)
    watch.stop(1.0)
    assert watch.state == STOPPED


def test_reason_of_a_process_counts_for_its_own_end_alone() -> None:
    watch = serving()
    watch.blame("the store is damaged")
    watch.blame("a later reason")
    watch.end(1.0, "ended with status 1")
    assert watch.cause == "ended with status 1: the store is damaged"
    watch.begin(1.0)
    died(watch, 2.0)
    assert watch.cause == "was killed by signal 9"


def test_restarted_shard_stops_and_is_due_at_once_without_a_death() -> None:
    watch = serving()
    for second in range(1, 11):
        watch.restart(float(second))
        assert (watch.state, watch.is_restarting, watch.restarts) == (STOPPING, True, second)
        watch.end(second + 0.5, IN_ORDER)
        assert (watch.state, watch.is_due(second + 0.5), watch.cause) == (AWAY, True, "")
        watch.begin(second + 0.5)
        assert watch.serve(second + 0.5)


def test_restart_that_is_requested_twice_goes_on_and_counts_once() -> None:
    watch = serving()
    watch.restart(1.0)
    watch.restart(2.0)
    assert (watch.restarts, watch.since) == (1, 1.0)


def test_restart_of_a_starting_shard_changes_nothing() -> None:
    watch = ShardWatch("north", 0.0)
    watch.begin(0.0)
    watch.restart(1.0)
    assert (watch.state, watch.restarts) == (STARTING, 0)


def test_restart_that_does_not_stop_is_killed_and_the_next_process_is_due() -> None:
    watch = serving()
    watch.restart(0.0)
    assert [watch.tick(second) for second in (1, 29, 30)] == [False, False, True]
    died(watch, 30.0)
    assert (watch.state, watch.is_due(30.0)) == (AWAY, True)
    assert watch.cause == "was killed by signal 9: it had not ended 30 s after the request to stop"


def test_restart_that_the_stop_of_the_node_overtakes_ends_stopped() -> None:
    watch = serving()
    watch.restart(1.0)
    watch.stop(2.0)
    assert not watch.is_restarting
    watch.end(3.0, IN_ORDER)
    assert (watch.state, watch.is_due(1_000.0)) == (STOPPED, False)


def test_restart_of_a_stopped_shard_begins_its_attempts_anew() -> None:
    watch = serving()
    for _ in range(4):
        died(watch, 1.0)
        watch.begin(1.0)
    died(watch, 1.0)
    assert watch.state == STOPPED
    watch.restart(2.0)
    assert watch.is_due(2.0)
    watch.begin(2.0)
    died(watch, 3.0)
    assert watch.is_due(3.0)
