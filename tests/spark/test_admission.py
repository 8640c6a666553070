"""Sizes of batches: limits, the least size, and warnings."""

from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_penstock import admission
from pyspark_penstock.admission import Admission, Caps
from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader

MANY = ReadMaxRows(1000)
LEAST = {"subscribe": "q", "cursor": "c"}
LIMITS = {"q": {"messages": 100, "bytes": 1000, "hold_s": 30.0}, "r": {"messages": 300, "bytes": None, "hold_s": 20.0}}


@pytest.fixture
def reader_of(broker, open_reader) -> Callable[..., PenstockStreamReader]:
    def make(queue: str, **others: str) -> PenstockStreamReader:
        return open_reader(broker, subscribe=queue, cursor=queue, **others)

    return make


class Clock:
    """Time by hand, in the place of the module's."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(admission, "time", made)
    return made


def admission_of(**options: str) -> Admission:
    return Admission(source_options({**LEAST, **options}))


def test_limits_are_half_of_the_capacity_unless_an_option_says_otherwise():
    assert admission_of().caps(LIMITS) == Caps(200, None)
    assert admission_of(maxBytesPerTrigger="7").caps({"q": LIMITS["q"]}) == Caps(50, 7)
    assert admission_of(maxOffsetsPerTrigger="8").caps({"q": LIMITS["q"]}) == Caps(8, 500)
    assert admission_of().caps({}) == Caps(admission.MOST_ROWS, None)


def test_cap_above_half_of_the_capacity_is_warned_of_once(caplog):
    small = admission_of(maxOffsetsPerTrigger="51", maxBytesPerTrigger="501")
    for _ in range(2):
        small.caps({"q": LIMITS["q"]})
    assert caplog.text.count("maxOffsetsPerTrigger=51 is more than half of the capacity of q, 100 messages") == 1
    assert caplog.text.count("maxBytesPerTrigger=501 is more than half of the capacity of q, 1,000 octets") == 1
    assert "set it to 50 at most" in caplog.text
    caplog.clear()
    admission_of(maxOffsetsPerTrigger="50").caps({"q": LIMITS["q"]})
    assert caplog.text == ""


def test_interval_above_the_hold_deadline_is_warned_of_once(clock, caplog):
    found = admission_of()
    found.on_return(LIMITS)
    for passed in (20.0, 20.5, 21.0):
        found.on_batch()
        clock.now += passed
        found.on_return(LIMITS)
        clock.now += 100  # Nothing arrives.
        found.on_return(LIMITS)
    assert caplog.text.count("passed between two plans") == 1
    assert "20.5 s passed between two plans, and queue 'r' holds publishes for 20 s at most" in caplog.text


def test_least_size_holds_until_the_delay_since_the_last_batch_is_over(clock):
    found = admission_of(minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    assert found.least_rows(Caps(100, None)) == 10
    assert found.least_rows(Caps(5, None)) == 5, "a batch cannot be larger than its limit"
    clock.now = 30.0
    assert found.least_rows(Caps(100, None)) == 0
    found.on_batch()
    assert found.least_rows(Caps(None, None)) == 10
    assert admission_of().least_rows(Caps(None, None)) == 0


def test_batch_waits_for_its_least_size(broker, queue, reader_of, clock):
    broker.publish(queue, [b"x"] * 9)
    reader = reader_of(queue, minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    start = reader.initialOffset()
    assert reader.latestOffset(start, MANY) == start
    broker.publish(queue, [b"x"])
    end = reader.latestOffset(start, MANY)
    assert end["q"] == {queue: 10}
    broker.publish(queue, [b"x"])
    assert reader.latestOffset(end, MANY) == end
    assert broker.depth(queue) == 1, "what is done is settled all the same"
    clock.now += 30
    assert reader.latestOffset(end, MANY)["q"] == {queue: 11}


def test_least_size_is_ignored_while_a_producer_is_blocked(broker, reader_of):
    queue = broker.declare(capacity_messages=5, stop_messages=4, resume_messages=3)
    broker.publish(queue, [b"x"] * 4)
    reader = reader_of(queue, minOffsetsPerTrigger="100", maxOffsetsPerTrigger="1000")
    start = reader.initialOffset()
    assert reader.latestOffset(start, MANY) == start, "four messages, and the gate is open"
    with broker.connect() as connection:
        channel = connection.channel()
        for _ in range(3):
            channel.basic_publish("", queue, b"y")
        connection.process_data_events(0)
        reader_ends = set()
        while not reader_ends - {0}:
            reader_ends.add(reader.latestOffset(start, MANY)["q"][queue])
    assert max(reader_ends) >= 5


def test_available_now_overrides_the_least_size_of_a_batch(broker, queue, reader_of):
    broker.publish(queue, [b"x"] * 3)
    reader = reader_of(queue, minOffsetsPerTrigger="100")
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["q"] == {queue: 3}


def test_run_that_ends_reads_the_rest_however_small(broker, queue, reader_of):
    broker.publish(queue, [b"x"] * 3)
    reader = reader_of(queue, minOffsetsPerTrigger="100")
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(reader.initialOffset(), MANY)["q"] == {queue: 3}
