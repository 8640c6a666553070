"""Plans of a spool: limits in messages and bytes, and the ends of a wait."""

from pathlib import Path

import pytest

from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.log import SpoolLog
from pyspark_amqp.spool.rows import Row, batch_of, spool_schema
from pyspark_amqp.spool.state import SpoolState
from tests.spark.amqp.spool.test_rows import delivery


def state_of(folder: Path, *frames: list[bytes]) -> SpoolState:
    log = SpoolLog(folder, "0" * 32, 1 << 30)
    log.recover(spool_schema())
    state = SpoolState(log, 0, retries=1)
    for bodies in frames:
        rows = [Row(log.tail + 1 + index, "q", 0, delivery(body), b"0" * 16) for index, body in enumerate(bodies)]
        frame = log.append(rows[0].number, len(rows), memoryview(batch_of(rows).serialize()), spool_schema())
        state.appended(frame)
    return state


def test_batch_ends_within_its_limits_and_has_one_message_at_least(tmp_path):
    state = state_of(tmp_path, [b"x"] * 10, [bytes(100_000)] * 4, [b"y"])
    assert state.plan(0, None, None, 0).end == 15
    assert state.plan(0, 7, None, 0).end == 7
    assert state.plan(3, 9, None, 0).end == 12
    assert state.plan(0, None, 250_000, 0).end == 12
    assert state.plan(10, None, 1, 0).end == 11
    assert state.plan(12, 5, 1 << 30, 0).end == 15
    assert state.plan(15, None, None, 0).end == 15


def test_least_size_of_a_batch_is_awaited_unless_it_delays_the_rest(tmp_path):
    state = state_of(tmp_path, [b"x"] * 10)
    assert state.plan(0, None, None, 0, least=11).end == 0
    assert state.plan(0, None, None, 0, least=10).end == 10
    state.paused = True
    assert state.plan(0, None, None, 0, least=11).end == 10
    braked = SpoolState(state.log, 0, 1, brake=10)
    assert braked.plan(0, None, None, 0, least=11).end == 10
    assert braked.plan(1, None, None, 0, least=11).end == 1


def test_target_of_a_query_that_ends_bounds_its_batches(tmp_path):
    state = state_of(tmp_path, [b"x"] * 10)
    state.drains = True
    state.note_target(6)
    assert state.plan(0, None, None, 0).end == 6
    assert state.plan(6, None, None, 0).end == 6


def test_spooled_messages_are_read_before_an_error_is_raised(tmp_path):
    state = state_of(tmp_path, [b"x"])
    for _ in range(2):
        state.note_connection("the broker is away")
    assert state.plan(0, None, None, 0).end == 1
    with pytest.raises(SpoolError, match=r"the broker is away \(2 attempts\)"):
        state.plan(1, None, None, 0)
    state.note_connection(None)
    state.note_disk("full")
    assert state.plan(1, None, None, 0).end == 1
    state.fail(SpoolError("refused", "no"))
    with pytest.raises(SpoolError, match="no"):
        state.plan(1, None, None, 0)


def test_places_of_numbers_are_those_of_their_frames(tmp_path):
    state = state_of(tmp_path, [b"x"] * 3, [b"x"] * 3)
    first, second = (frame.offset for frame in state.log.frames)
    assert state.places([1, 3, 4, 6]) == [(1, first), (1, first), (1, second), (1, second)]
    with pytest.raises(SpoolError, match="message 7 is not in the spool"):
        state.places([7])


def test_settling_beyond_the_end_is_refused(tmp_path):
    state = state_of(tmp_path, [b"x"])
    with pytest.raises(SpoolError, match=r"has read up to 2, but the spool .* ends at 1"):
        state.settle(2)
    state.settle(1)
    state.settle(0)
    assert state.settled == 1
