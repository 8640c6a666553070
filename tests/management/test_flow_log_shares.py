"""Shares of the flow log: one user or virtual host cannot push out the records of others."""

from __future__ import annotations

import json

from penstock.core.effects import Blocked, GateChanged, PublishRefused, Stopped, Unblocked
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.producer import Producer
from penstock.flow.gate import Gate, GateTransition
from penstock.management.flow_log_records import Recorder
from penstock.management.flow_log_samples import Record
from penstock.management.flow_log_shares import (
    FILLED_S,
    LEAST_OCTETS,
    LOG_OCTETS,
    RECORD_OCTETS,
    SUMS_KEPT,
    Author,
    FlowLogShares,
)
from penstock.management.gate_lines import LASTING_S, RETRIED_A_SECOND, Spell, Spells
from tests.support.broker_fixture import House

SMALL = 20_000
"""Octets of a share that some dozens of records use up."""


class Log:
    """A recorder whose time is set by hand, and its records."""

    def __init__(self, burst: int = SMALL) -> None:
        self.house = House("a")
        self.recorder = Recorder(self.house.broker)
        self.recorder.shares.allowance.burst = burst
        self.records: list[Record] = []

    def gate(self, vhost: str, queue: str) -> Gate:
        """Return the gate of a new queue."""
        found = self.house.broker.vhosts.get(vhost) or self.house.broker.add_vhost(vhost)
        return found.declare_queue(queue, {}, False, False, None, None).gate

    def cross(self, gate: Gate) -> None:
        """Close and open a gate."""
        now = self.house.broker.now
        for closed in (True, False):
            self.recorder.record(GateChanged(GateTransition(gate, closed, 1, 100, now)))

    def refuse(self, producer: Producer, gate: Gate) -> None:
        """Refuse a publish of ten messages."""
        refused = PublishRefused(producer, gate, "deadline")
        refused.messages, refused.bytes = 10, 1000
        self.recorder.record(refused)

    def second(self) -> list[Record]:
        """Let a second pass; return its records."""
        self.house.at(self.house.broker.now + 1.0)
        self.recorder.tell_lasting(self.house.broker.now)
        self.recorder.tick()
        records = self.recorder.take()
        self.records += records
        return records

    def of(self, event: str) -> list[Record]:
        """Return the records of an event so far."""
        return [record for record in self.records if record["event"] == event]


def eve(log: Log, name: str = "p") -> Producer:
    return log.house.producer(name, origin=ConnectionGates("eve", f"con:{name}"))


def test_share_grows_with_time_and_single_records_use_half() -> None:
    shares, author, record = FlowLogShares(), Author("eve", "/"), {"text": "x" * 988}
    burst, rate = shares.allowance.burst, shares.allowance.rate
    count = 0
    while shares.admits(author, 1.0):
        assert shares.spend(author, record, 1.0)
        count += 1
    assert count == burst // 2 // 1000 + 1
    while shares.spend(author, record, 1.0):
        count += 1
    assert count == burst // 1000
    assert not shares.spend(Author("eve", "other"), record, 1.0)
    assert shares.spend(Author("anna", "/"), record, 1.0)
    assert shares.spend(Author("", "eve"), record, 1.0)
    assert shares.spend(author, record, 1.0 + (1000 + RECORD_OCTETS) / rate)


def test_share_is_a_part_of_the_files() -> None:
    shares = FlowLogShares()
    assert (shares.allowance.burst, shares.allowance.rate) == (4 * 1024 * 1024, 4096.0)
    assert FILLED_S * 3.5 * shares.allowance.rate < LOG_OCTETS / 8
    shares.resize(2 * LOG_OCTETS)
    assert (shares.allowance.burst, shares.allowance.rate) == (8 * 1024 * 1024, 8192.0)
    shares.resize(20_000)
    assert shares.allowance.burst == LEAST_OCTETS


def test_sums_of_many_authors_are_bounded() -> None:
    shares = FlowLogShares()
    for number in range(2 * SUMS_KEPT):
        shares.sum_of(Author(f"user {number}", "/"), 1.0).count += 1
    sums = shares.take()
    assert len(sums) == SUMS_KEPT + 1
    assert sum(int(each.count) for each in sums.values()) == 2 * SUMS_KEPT
    assert shares.take() == {}


def test_gates_that_cross_often_use_the_share_of_their_virtual_host_only() -> None:
    log = Log()
    gates, other = [log.gate("eve", f"q{number}") for number in range(50)], log.gate("anna", "q")
    seconds = 60
    for _ in range(seconds):
        for gate in gates:
            log.cross(gate)
        log.second()
    written = sum(len(json.dumps(record)) for record in log.records if record["event"] != "summed")
    assert written <= SMALL + seconds * log.recorder.shares.allowance.rate
    assert len(log.of("gate-closed")) == len(log.of("gate-opened"))
    recorded = len(log.of("gate-closed")) + sum(int(str(each["count"])) for each in log.of("brief-closings"))
    summed = log.of("summed")
    assert recorded + sum(int(str(each["count"])) for each in summed) == seconds * len(gates)
    assert {(each["vhost"], each.get("user")) for each in summed} == {("eve", None)}
    assert len(summed) <= seconds
    log.cross(other)
    assert [record["event"] for record in log.second() if record.get("vhost") == "anna"] == [
        "gate-closed",
        "gate-opened",
    ]


def test_refusals_of_very_many_publishers_of_a_user_are_one_sum_a_second() -> None:
    log = Log()
    gate = log.house.vhost.queues["a"].gate
    publishers = [eve(log, f"p{number}") for number in range(1000)]
    anna = log.house.producer("anna's", origin=ConnectionGates("anna", "con:2"))
    for producer in [*publishers, anna]:
        log.refuse(producer, gate)
    log.second()
    (summed,) = log.of("summed")
    own = [record for record in log.of("refused") if record["producer"] != "anna's"]
    assert (summed["user"], summed["vhost"]) == ("eve", "/")
    assert sum(len(json.dumps(record)) for record in own) < SMALL + len(own) * 10
    assert len(own) + int(str(summed["count"])) == 1000
    assert summed["refused_messages"] == 10 * int(str(summed["count"]))
    assert summed["refused_bytes"] == 1000 * int(str(summed["count"]))
    assert [record["count"] for record in log.of("refused") if record["producer"] == "anna's"] == [10]


def test_block_beyond_the_share_is_recorded_with_its_beginning_when_it_lasts() -> None:
    log = Log()
    gate = log.house.vhost.queues["a"].gate
    producer = eve(log)
    began = log.house.broker.now
    while log.recorder.shares.admits(Author("eve", "/"), began):
        log.recorder.record(Stopped(producer, gate, 5.0, began))
    for _ in range(10):
        log.recorder.record(Stopped(producer, gate, 5.0, began))
    log.recorder.record(Blocked(producer, gate, began))
    assert "blocked" not in [record["event"] for record in log.recorder.take()]
    log.second()
    assert [record["count"] for record in log.of("summed")] == [10]
    log.second()
    (blocked,) = log.of("blocked")
    assert blocked["mono"] == began
    log.recorder.record(Unblocked(producer, gate, log.house.broker.now))
    assert [record["event"] for record in log.second() if record["event"] == "unblocked"] == ["unblocked"]


def test_spell_that_is_not_admitted_asks_again_and_is_summed_at_its_end() -> None:
    room = [False]
    spells = Spells(1, lambda spell: room[0])
    gates = [Gate("queue", str(number), []) for number in range(RETRIED_A_SECOND + 10)]
    keys = [(id(gate), 0) for gate in gates]
    for key, gate in zip(keys, gates, strict=True):
        assert not spells.begin(key, Spell(gate, 1.0, None))
    assert spells.lasting(1.0 + LASTING_S) == []
    assert not spells.end(keys[0], 3.0)
    (summed,) = spells.tick()
    assert (summed.count, summed.total_s) == (1, 2.0)
    room[0] = True
    (first, *_) = spells.lasting(4.0)
    assert (first.gate.name, first.since) == ("1", 1.0)
    assert spells.end(keys[1], 5.0)
