"""Checks for alarms: which conditions of a broker raise one, with which words, and what a round costs."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from penstock.core.gates.operator import VHOST
from penstock.core.journal.journal import Journal
from penstock.core.settings.table import Parameter
from penstock.flow.gate import DEADLINE, Gate
from penstock.flow.work import UNITS_A_TURN
from penstock.management.alarm_checks import SLICE, AlarmThresholds, GateOf
from penstock.management.node import Certificates
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support import at_once
from tests.support.blocked_scene import Scene
from tests.support.driven_connection import publish

DAY_S = 86_400.0
GIB = 1 << 30


class Watched(Scene):
    """A broker with somebody blocked, and rounds of checks."""

    def raised(self, now: float | None = None) -> list[dict[str, Any]]:
        """Do a round, at a time; return the raised alarms."""
        if now is not None:
            self.at(now)
        self.driver.alarm_checks.check()
        return self.driver.alarms.rows()

    def kinds(self, now: float | None = None) -> list[object]:
        return [row["kind"] for row in self.raised(now)]

    def set(self, scope: str = "broker", pattern: str = "", **settings: object) -> None:
        at_once.set_named(self.driver.broker, scope, pattern, **settings)

    def with_store(self) -> None:
        broker = self.driver.broker
        broker.journal = Journal(broker.durable_changes, broker.gates.disk, broker.large)
        broker.gates.set_disk_limit(broker.table.limits("broker", ""))


@pytest.fixture
def scene() -> Watched:
    return Watched()


def test_idle_broker_has_no_alarm(scene: Watched) -> None:
    scene.join().declare("orders")
    scene.with_store()
    assert scene.raised() == []


def test_gate_raises_an_alarm_after_its_time_and_names_what_to_do(scene: Watched) -> None:
    scene.filled()
    assert scene.kinds(399.0) == []
    (row,) = scene.raised(401.0)
    assert (row["kind"], row["vhost"], row["subject"]) == ("gate", "/", "queue orders")
    assert "queue orders: 4 messages > stop 3 (opens at 1), closed for 30" in str(row["text"])
    assert "orders" in str(row["action"])


def test_time_of_a_queue_is_set_by_pattern_and_never_is_never(scene: Watched) -> None:
    scene.filled("orders.a")
    scene.filled("orders.b")
    scene.set("queue", "orders.a", alarm_gate_closed="2s")
    scene.set("queue", "orders.b", alarm_gate_closed="none")
    assert [row["subject"] for row in scene.raised(103.0)] == ["queue orders.a"]
    assert [row["subject"] for row in scene.raised(100_000.0)] == ["queue orders.a"]


def test_gates_of_operator_address_and_vhost_raise_alarms(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("orders")
    scene.set(alarm_gate_closed="5s")
    scene.set("vhost", "/", capacity_messages=10, stop_messages=1, resume_messages=0)
    for _ in range(3):
        producer.say(publish("orders", b"x"))
    scene.control("block", queue="orders")
    scene.at(101.0)
    assert scene.kinds(104.0) == []
    found = scene.raised(107.0)
    assert sorted(str(row["subject"]) for row in found) == ["the operator, who holds queue orders", "vhost /"]


@pytest.mark.parametrize(
    ("scope", "pattern", "block", "subject"),
    [
        ("queue", "orders", {"queue": "orders"}, "queue orders"),
        ("address", "amq.direct", {"address": "amq.direct"}, "address amq.direct"),
        ("user", "guest", {"user": "guest"}, "user guest"),
        ("vhost", "/", {"vhost": "/"}, "vhost /"),
        ("vhost", "/", {"address": "amq.direct"}, "address amq.direct"),
    ],
)
def test_time_of_a_gate_that_the_operator_closes_is_of_what_it_blocks(
    scene: Watched, scope: str, pattern: str, block: dict[str, str], subject: str
) -> None:
    scene.join().declare("orders")
    scene.set(scope, pattern, alarm_gate_closed="none")
    scene.control("block", **block)
    assert scene.kinds(100_000.0) == []
    scene.set(scope, pattern, alarm_gate_closed="1h")
    (row,) = scene.raised(100_001.0)
    assert (row["kind"], row["subject"]) == ("gate", f"the operator, who holds {subject}")


def test_gate_of_an_exchange_has_its_own_time_and_names_its_vhost(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("orders")
    producer.say(method_frame(1, spec.QUEUE_BIND, queue="orders", exchange="amq.direct", routing_key="k"))
    scene.set("address", "amq.direct", capacity_messages=10, stop_messages=1, resume_messages=0, alarm_gate_closed="2s")
    for _ in range(3):
        producer.say(publish("k", b"x", exchange="amq.direct"))
    (row,) = scene.raised(103.0)
    assert (row["kind"], row["vhost"], row["subject"]) == ("gate", "/", "address amq.direct")


def test_gate_of_a_routing_key_raises_an_alarm_by_its_pattern(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("orders")
    for key in ("eu", "us"):
        producer.say(method_frame(1, spec.QUEUE_BIND, queue="orders", exchange="amq.direct", routing_key=key))
    bound = {"capacity_messages": 10, "stop_messages": 1, "resume_messages": 0}
    scene.set("address", "amq.direct/eu", **bound, alarm_gate_closed="none")
    scene.set("address", "amq.direct/us", **bound)
    for key in ("eu", "us"):
        for _ in range(3):
            producer.say(publish(key, b"x", exchange="amq.direct"))
    assert scene.kinds(399.0) == []
    assert [(row["vhost"], row["subject"]) for row in scene.raised(401.0)] == [("/", "address amq.direct/us")]


def test_closed_gate_of_memory_is_critical_at_once(scene: Watched) -> None:
    scene.driver.broker.table.machine_bytes = GIB
    scene.set(memory_capacity=2_000_000, memory_stop=1_000, memory_resume=500)
    producer = scene.join()
    producer.declare("a")
    producer.declare("b")
    memory = scene.driver.broker.gates.memory
    assert memory is not None
    memory.gate.close(0, 5_000, scene.driver.broker.now)
    (row,) = scene.raised()
    assert (row["kind"], row["severity"], row["subject"]) == ("memory", "critical", "memory")
    memory.gate.reopen(0, 0, scene.driver.broker.now)
    scene.set(alarm_clear="10s")
    assert scene.kinds(109.0) == ["memory"]
    assert scene.kinds(111.0) == []


def test_publishes_refused_at_the_deadline_raise_an_alarm_for_a_minute(scene: Watched) -> None:
    producer = scene.filled(messages=4)
    for _ in range(8):
        producer.say(publish("orders", b"x"))
    scene.set("queue", "orders", alarm_gate_closed="none")
    assert scene.kinds(110.0) == []
    (row,) = scene.raised(200.0)
    assert (row["kind"], row["subject"], row["vhost"]) == ("held", "queue orders", "/")
    assert row["text"] == "2 publishes were refused at the hold deadline by queue orders"
    scene.raised(261.0)
    assert scene.kinds(291.0) == []


def test_oldest_ready_message_raises_an_alarm_where_its_age_is_set(scene: Watched) -> None:
    producer = scene.join()
    for name in ("orders", "parked"):
        producer.declare(name)
        producer.say(publish(name, b"first"))
    assert scene.kinds(10_000.0) == []
    scene.set("queue", "orders", alarm_oldest="10min")
    producer.say(publish("orders", b"second"))
    (row,) = scene.raised(10_001.0)
    assert (row["kind"], row["vhost"], row["subject"]) == ("oldest", "/", "queue orders")
    assert row["text"] == "queue orders: the oldest of 2 ready messages is 9,901 s old"
    assert str(row["action"]).startswith("`penstock why orders`")


def test_alarm_of_the_oldest_message_ends_when_the_message_has_left(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("orders")
    scene.set(alarm_oldest="1min", alarm_clear="10s")
    assert scene.kinds(1_000.0) == []
    producer.say(publish("orders", b"old"))
    assert scene.kinds(1_059.0) == []
    assert scene.kinds(1_061.0) == ["oldest"]
    scene.driver.broker.vhost("/").queue("orders").purge(1_061.0)
    assert scene.kinds(1_070.0) == ["oldest"]
    assert scene.kinds(1_072.0) == []


def test_unacknowledged_message_is_not_the_oldest_ready_one(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("orders")
    producer.consume("orders", prefetch=1)
    scene.set(alarm_oldest="1min")
    producer.say(publish("orders", b"delivered"))
    assert scene.kinds(1_000.0) == []


def test_refusals_for_other_reasons_raise_no_alarm(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("small", capacity_messages=1, overflow="reject")
    for _ in range(3):
        producer.say(publish("small", b"x"))
    assert DEADLINE not in scene.driver.alarms.refusing
    assert scene.kinds(101.0) == []


def test_failing_store_and_full_disk_are_critical(scene: Watched) -> None:
    scene.with_store()
    disk = scene.driver.broker.gates.disk
    disk.fails("no space left on device", 100.0)
    disk.measured(1000, 10_000_000, 100 * GIB, 100.0)
    found = {row["kind"]: row for row in scene.raised(101.0)}
    assert {row["severity"] for row in found.values()} == {"critical"}
    assert found.keys() == {"store", "disk-full"}
    assert "no space left on device" in str(found["store"]["text"])
    assert "min-disk-free" in str(found["disk-full"]["text"])


def test_low_disk_raises_an_alarm_before_its_gate_closes(scene: Watched) -> None:
    scene.with_store()
    disk = scene.driver.broker.gates.disk
    disk.measured(1000, 6 * GIB, 100 * GIB, 100.0)
    assert scene.kinds() == []
    disk.measured(1000, 4 * GIB, 100 * GIB, 100.0)
    (row,) = scene.raised()
    assert (row["kind"], row["subject"]) == ("disk-low", "disk room")
    assert row["text"] == f"the disk has {4 * GIB - 50_000_000:,} bytes left until publishers wait for min-disk-free"
    scene.set(alarm_disk_low="1GiB", alarm_clear="1s")
    assert scene.kinds(110.0) == []


def test_quota_that_is_nearly_used_raises_an_alarm(scene: Watched) -> None:
    scene.with_store()
    scene.set(disk_overfull=1000)
    scene.driver.broker.gates.disk.measured(950, 90 * GIB, 100 * GIB, 100.0)
    (row,) = scene.raised()
    assert row["text"] == "the store has 950 bytes; publishers wait above 1,000"


def test_broker_without_a_store_has_no_alarm_of_the_disk(scene: Watched) -> None:
    scene.driver.broker.gates.set_disk_limit(scene.driver.broker.table.limits("broker", ""))
    scene.driver.broker.gates.disk.measured(0, 0, 100 * GIB, 100.0)
    assert scene.kinds() == []


class Ending(Certificates):
    """Certificates that end at these times, in seconds since the epoch."""

    def __init__(self, *ends: float) -> None:
        self._ends = ends

    @override
    def ends(self) -> list[tuple[str, str, float]]:
        return [(f"{number}.pem", "", end) for number, end in enumerate(self._ends)]


def test_certificate_raises_an_alarm_before_and_after_its_end(scene: Watched) -> None:
    wall = 100.0 + scene.driver.broker.wall_offset
    scene.driver.certificates = Ending(wall + 5 * DAY_S, wall - DAY_S, wall + 40 * DAY_S)
    found = {str(row["subject"]): str(row["text"]) for row in scene.raised()}
    assert found.keys() == {"certificate 0.pem", "certificate 1.pem"}
    assert found["certificate 0.pem"].startswith("certificate '0.pem' ends in 5 days, on ")
    assert found["certificate 1.pem"].startswith("certificate '1.pem' has ended on ")


def test_late_event_loop_raises_an_alarm(scene: Watched) -> None:
    scene.driver.alarms.late(0.9)
    assert scene.kinds() == []
    scene.driver.alarms.late(2.5)
    (row,) = scene.raised()
    assert row["text"] == "the event loop ran 2.5 s late, and not because of a turn"
    scene.driver.scheduler.turn_times.end_turn(3.25, 100.0)
    (row,) = scene.raised()
    assert row["text"] == "the event loop was busy for 3.2 s at once"


def test_cursor_beyond_its_limit_raises_an_alarm(scene: Watched) -> None:
    producer = scene.join()
    producer.declare("orders")
    scene.set("queue", "orders", cursor_max_lag_messages=2)
    scene.control("cursor.attach", cursor="billing", queues=["orders"], create=True)
    for _ in range(4):
        producer.say(publish("orders", b"x"))
    scene.at(102.0)
    (row,) = scene.raised(104.0)
    assert (row["kind"], row["subject"]) == ("cursor", "cursor billing of queue orders")
    assert "4 messages behind, beyond cursor-max-lag-messages=2" in str(row["text"])
    assert "penstock cursors delete billing" in str(row["action"])


def test_round_of_ten_thousand_queues_is_done_in_slices(scene: Watched) -> None:
    vhost = scene.driver.broker.vhost("/")
    for number in range(10_000):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    checks = scene.driver.alarm_checks
    checks.tick()
    slices = 0
    while checks.has_more():
        assert checks.work(UNITS_A_TURN, 101.0) <= SLICE + SLICE // 10
        slices += 1
    assert slices >= 5


def test_second_tick_during_a_round_does_not_begin_it_again(scene: Watched) -> None:
    vhost = scene.driver.broker.vhost("/")
    for number in range(2_000):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    scene.filled("last")
    scene.set("queue", "last", alarm_gate_closed="1s")
    scene.driver.begin(200.0)
    checks = scene.driver.alarm_checks
    checks.tick()
    checks.work(50, 200.0)
    checks.tick()
    while checks.has_more():
        checks.work(50, 200.0)
    assert [row["subject"] for row in scene.driver.alarms.rows()] == ["queue last"]


def test_round_is_done_each_second_by_the_driver(scene: Watched) -> None:
    scene.filled()
    scene.set(alarm_gate_closed="1s")
    scene.driver.begin(105.0)
    scene.driver.tick()
    while scene.driver.run_turn():
        pass
    assert [row["kind"] for row in scene.driver.alarms.rows()] == ["gate"]


def test_thresholds_are_those_of_the_settings_or_defaults() -> None:
    scene = Watched()
    defaults = AlarmThresholds(scene.driver.broker.table)
    gate = Gate("vhost", "/", [])
    assert defaults.closed_s(GateOf(gate, VHOST, "/", "/")) == 300.0
    assert (defaults.certificate_s, defaults.loop_s, defaults.clear_s) == (30 * DAY_S, 1.0, 30.0)
    assert (defaults.disk_low(100 * GIB), defaults.disk_low(0)) == (5 * GIB, 0)
    scene.set(alarm_certificate="1d", alarm_loop="250ms", alarm_clear="1ms", alarm_disk_low="none")
    found = AlarmThresholds(scene.driver.broker.table)
    assert (found.certificate_s, found.loop_s, found.disk_low(100 * GIB)) == (DAY_S, 0.25, 0)


def test_deleted_queue_ends_its_alarm(scene: Watched) -> None:
    scene.filled()
    scene.set(alarm_gate_closed="1s", alarm_clear="5s")
    assert scene.kinds(105.0) == ["gate"]
    vhost = scene.driver.broker.vhost("/")
    vhost.delete_queue(vhost.queue("orders"), 105.0)
    assert scene.kinds(112.0) == []


def test_memory_that_fills_steadily_raises_an_alarm_before_its_gate_closes(scene: Watched) -> None:
    scene.driver.broker.table.machine_bytes = GIB
    scene.set(memory_capacity=200_000_000, memory_stop=100_000, memory_resume=500)
    producer = scene.join().declare("a").declare("b")
    for slot in range(12):
        assert scene.raised(100.0 + 5 * slot) == []
        for name in "ab":
            producer.say(publish(name, b"x" * 760))
    (row,) = scene.raised(160.0)
    assert (row["kind"], row["tone"], row["noun"], row["unit"]) == ("memory-low", "warn", "broker", "bytes")
    assert row["hurts_in_s"] == pytest.approx(row["left"] / (2_000 / 5.0), rel=0.01)
    assert "publishers wait above 100,000" in str(row["text"])
    scene.set(alarm_clear="10s")
    for slot in range(13, 30):
        scene.raised(100.0 + 5 * slot)
    assert scene.raised() == []


def test_disk_that_fills_steadily_raises_an_alarm_above_its_threshold(scene: Watched) -> None:
    scene.set(min_disk_free=GIB, alarm_disk_low=1_000)
    scene.with_store()
    disk = scene.driver.broker.gates.disk
    for slot in range(14):
        disk.measured(0, 2 * GIB - slot * (GIB // 100), 100 * GIB, scene.driver.broker.now)
        found = scene.raised(100.0 + 5 * slot)
        assert bool(found) == (slot >= 12)
    assert (found[0]["kind"], found[0]["tone"]) == ("disk-low", "warn")
    assert found[0]["hurts_in_s"] == pytest.approx(5 * 87, rel=0.02)


def test_alarm_of_an_operators_gate_stops_and_names_its_object(scene: Watched) -> None:
    scene.join().declare("orders")
    scene.set(alarm_gate_closed="1s")
    scene.control("block", queue="orders")
    (row,) = scene.raised(105.0)
    assert (row["tone"], row["noun"], row["name"], row["hurts_in_s"]) == ("stop", "queue", "orders", 0.0)


def test_alarm_of_a_certificate_hurts_at_its_end(scene: Watched) -> None:
    wall = scene.driver.broker.now + scene.driver.broker.wall_offset
    scene.driver.certificates = Ending(wall + 9 * DAY_S)
    (row,) = scene.raised()
    assert (row["noun"], row["name"], row["left"], row["unit"]) == ("certificate", "0.pem", 9 * DAY_S, "s")
    assert row["hurts_in_s"] == 9 * DAY_S


def test_bridge_that_is_away_or_refused_for_a_minute_raises_an_alarm(scene: Watched) -> None:
    parameters, bridges = scene.driver.broker.table.parameters, scene.driver.bridges
    for name in ("old", "new"):
        parameters.put(Parameter("shovel", "/", name, {"src-uri": "amqp://u:secret@host/"}, "guest"))
    scene.at(100.0)
    wall = scene.driver.broker.wall_offset
    for name, state in (("old", "refused"), ("new", "held")):
        row = {"state": state, "reason": "queue q refuses: too large", "since": wall + 100.0}
        bridges.report(f"shovel:/:{name}", row, 100.0)
    assert scene.kinds(159.0) == []
    (row,) = scene.raised(161.0)
    assert (row["kind"], row["vhost"], row["subject"]) == ("bridge", "/", "shovel old")
    assert row["text"] == "shovel old is refused: queue q refuses: too large"
    assert row["action"] == "`penstock bridges show old` tells which end, and why"
    parameters.drop("shovel", "/", "old")
    assert "bridge" not in scene.kinds(500.0)
