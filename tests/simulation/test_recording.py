"""Recordings: the workload that records of a flow log give, and its replay."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock_simulation.candidate import Candidate
from penstock_simulation.command import SHOWN
from penstock_simulation.recording import Recording, RecordingError, record
from penstock_simulation.replay import MEASURES, compare
from penstock_simulation.simulation import Simulation

START = 1_000_000.0
SIZES = [0] * 10 + [1]
"""Charges from 512 to 1,023 octets."""


def log(seconds: int = 20, came: int = 100, left: int = 80) -> list[dict[str, Any]]:
    """Return the records of a queue that fills up by 20 messages a second, as a broker writes them."""
    records: list[dict[str, Any]] = [{"event": "start", "wall": START}]
    about = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
    marks = {"capacity_messages": 200, "stop_messages": 160, "resume_messages": 120, "hold_deadline": 30.0}
    records.append({"event": "queue", "wall": START, **about, **marks})
    for second in range(1, seconds + 1):
        depth = min(160, (came - left) * second)
        sample = {"in_messages": came, "settled_messages": left, "seconds": 1.0, "sizes": SIZES, "consumers": 1}
        at = START + second
        records.append({"event": "depth", "wall": at, **about, "messages": depth, "bytes": depth * 760, **sample})
    records.append({"event": "gate-closed", "wall": START + 8.5, **about, "messages": 161, "bytes": 161 * 760})
    records.append({"event": "gate-opened", "wall": START + 9.0, **about, "messages": 120, "bytes": 120 * 760})
    for name, share in (("a", 750), ("b", 250)):
        records.append({"event": "producer", "wall": START + 10, **about, "producer": name, "in_messages": share})
    records.append({"event": "consumer", "wall": START + 10, **about, "consumer": "c", "prefetch": 50})
    other = {"kind": "queue", "gate": "other", "vhost": "/", "queue": "other"}
    records.append({"event": "depth", "wall": START + 3, **other, "in_messages": 7, "seconds": 1.0, "messages": 7})
    return records


def test_recording_has_arrivals_services_and_settings_of_one_queue() -> None:
    found = record(log(), "orders")
    assert found.messages == 2000
    assert found.candidate() == Candidate(None, 200, 80.0, 60.0, 30.0, 1000, 50)
    workload = found.workload()
    assert workload.seconds == 20
    counts = [sum(1 for _ in workload.arrivals_of(index)) for index in (0, 1)]
    assert counts == [1500, 500]
    assert {arrival.octets for arrival in workload.arrivals_of(0)} == {768 - 240}
    assert [worker.rates[0] for worker in workload.workers] == [80]
    assert found.measures() == {
        "depth": 161 * 760,
        "depth_messages": 161,
        "closed": 0.5 / 20,
        "crossings": 1,
        "blocked": 0.0,
        "refused": 0,
    }


def test_recording_of_a_queue_with_a_length_replays_the_length() -> None:
    records = log()
    records[1] |= {"overflow": "block", "length_messages": 40, "length_overflow": "drop-head"}
    found = record(records, "orders")
    assert found.candidate().queue_settings()["max-length"] == 40
    assert "overflow" not in found.candidate().queue_settings()
    assert compare(found, found.candidate(), None).same.depth_messages == 40 + 50, "what is ready, and a prefetch"


WAYS: dict[str, tuple[dict[str, object], str | None, bool, tuple[str, str]]] = {
    "no policy in the log": ({}, None, False, ("block", "")),
    "a capacity holds": ({"overflow": "block"}, None, False, ("block", "")),
    "a capacity refuses": ({"overflow": "reject"}, "reject", False, ("reject", "")),
    "a capacity drops": ({"overflow": "drop-head"}, "drop-head", False, ("drop-head", "")),
    "a length drops, the capacity holds": (
        {"overflow": "block", "length_messages": 40, "length_overflow": "drop-head"},
        None,
        False,
        ("block", "drop-head"),
    ),
    "a length refuses, the capacity holds": (
        {"overflow": "block", "length_messages": 40, "length_overflow": "reject"},
        "reject",
        True,
        ("block", "reject"),
    ),
    "both refuse": (
        {"overflow": "reject", "length_messages": 40, "length_overflow": "reject"},
        "reject",
        False,
        ("reject", "reject"),
    ),
    "both drop": (
        {"overflow": "drop-head", "length_bytes": 40_000, "length_overflow": "drop-head"},
        "drop-head",
        False,
        ("drop-head", "drop-head"),
    ),
    "pages": ({"overflow": "page"}, None, False, ("block", "")),
    "pages that are read back": ({"overflow": "read-back"}, None, False, ("block", "")),
    "a queue that destroys itself": ({"overflow": "self-destruct"}, None, False, ("block", "")),
}
"""For each way the fields of the log, the overflow of the candidate, whether only the length has it, and the policies
of the simulated queue."""


@pytest.mark.parametrize("way", WAYS)
def test_recording_replays_the_overflow_policy_of_each_limit(way: str) -> None:
    fields, overflow, holds, (at_capacity, at_length) = WAYS[way]
    records = log()
    records[1] |= fields
    found = record(records, "orders")
    candidate = found.candidate()
    assert (candidate.overflow, candidate.holds_at_capacity) == (overflow, holds)
    queue = Simulation(found.workload(), candidate).queue
    assert (queue.overflow.name, "" if queue.length is None else queue.length.policy.name) == (at_capacity, at_length)
    assert int(queue.thresholds.capacity.messages) == 200
    assert compare(found, candidate, None).same.offered == found.messages


@pytest.mark.parametrize(
    ("fields", "offers"),
    [
        ({"overflow": "block"}, 2000),
        ({"overflow": "reject"}, 2600),
        ({"overflow": "block", "length_messages": 40, "length_overflow": "drop-head"}, 2000),
        ({"overflow": "block", "length_messages": 40, "length_overflow": "reject"}, 2600),
        ({"overflow": "block", "length_messages": 40, "length_overflow": "reject-dead-letter"}, 2600),
    ],
)
def test_publishes_that_a_policy_refused_are_offered_in_their_second(fields: dict[str, object], offers: int) -> None:
    records = log()
    records[1] |= fields
    for each in records:
        if each["event"] == "depth" and each["queue"] == "orders":
            each["refused_messages"] = 30
    found = record(records, "orders")
    assert (found.measures()["refused"], found.messages, found.tried) == (600, 2000, 2600)
    arrivals = [arrival.at for index in (0, 1) for arrival in found.workload().arrivals_of(index)]
    assert len(arrivals) == offers
    for second in range(20):
        assert sum(1 for at in arrivals if second <= at < second + 1) == pytest.approx(offers / 20, abs=2)


def test_replay_shows_refusals_by_length_while_the_capacity_holds() -> None:
    records = log()
    records[1] |= {"overflow": "block", "length_messages": 40, "length_overflow": "reject"}
    for each in records:
        if each["event"] == "depth" and each["queue"] == "orders":
            each |= {"messages": 40, "in_messages": 80, "refused_messages": 20}
    found = record(records, "orders")
    comparison = compare(found, found.candidate(), found.candidate().with_changes(max_length=None, overflow=None))
    assert comparison.same.refused == pytest.approx(400, rel=0.2)
    assert comparison.same.depth_messages <= 40 + 50, "what is ready, and a prefetch"
    assert comparison.same.crossings == 0, "the capacity of 200 is never met"
    assert comparison.other is not None
    assert comparison.other.refused == 0
    assert comparison.other.crossings > 0, "without the length the capacity holds"
    assert "max-length=40 overflow=reject (at the length; the capacity holds publishers)" in comparison.lines()[1]


@pytest.mark.parametrize(
    ("change", "holds", "policies"),
    [
        (("overflow=reject-publish",), False, ("reject", "")),
        (("overflow=reject-publish", "max-length=40"), True, ("block", "reject")),
        (("max-length=40",), False, ("block", "drop-head")),
        (("overflow=ring", "capacity-messages=90"), False, ("drop-head", "")),
    ],
)
def test_overflow_of_a_replay_acts_at_the_length_if_there_is_one(
    change: tuple[str, ...], holds: bool, policies: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in log()))
    words = [word for each in change for word in ("--set", each)]
    answer = CliRunner().invoke(main, ["replay", str(tmp_path), "--queue", "orders", "--json", *words])
    assert answer.exit_code == 0, answer.output
    changed = Candidate(**json.loads(answer.output)["changed"]["settings"])
    assert changed.holds_at_capacity is holds
    queue = Simulation(record(log(), "orders").workload(), changed).queue
    assert (queue.overflow.name, "" if queue.length is None else queue.length.policy.name) == policies


@pytest.mark.parametrize("policy", ["page", "self-destruct", "drop-heads", ""])
def test_overflow_that_no_simulation_has_is_refused(policy: str, tmp_path: Path) -> None:
    (tmp_path / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in log()))
    words = ["replay", str(tmp_path), "--queue", "orders", "--set", f"overflow={policy}"]
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 1
    assert "cannot be simulated; it is one of block, drop-head, drop-new, reject, reject-dead" in answer.output


def test_command_of_a_length_with_its_own_way_names_two_sources() -> None:
    candidate = Candidate(capacity_messages=200, max_length=40, overflow="reject", holds_at_capacity=True)
    assert candidate.command("orders") == (
        "penstock queues set orders capacity-messages=200, and in a policy max-length=40 overflow=reject"
    )
    assert candidate.with_changes(holds_at_capacity=False).command("orders") == (
        "penstock queues set orders capacity-messages=200 max-length=40 overflow=reject"
    )


def test_arrivals_during_a_block_are_offered_at_its_beginning() -> None:
    records = log(seconds=6)
    about = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders", "producer": "a"}
    records += [
        {"event": "blocked", "wall": START + 1.5, **about},
        {"event": "unblocked", "wall": START + 4.5, **about},
        {"event": "gate-closed", "wall": START + 1.5, **about, "messages": 40, "bytes": 4000},
    ]
    found = record(records, "orders")
    arrivals = [arrival.at for arrival in found.workload().arrivals_of(0)]
    counts = [sum(1 for at in arrivals if begin <= at < begin + 0.5) for begin in (0.5, 1.0, 1.5, 2.0, 4.5, 5.0, 5.5)]
    assert counts[1:5] == [45, 255, 0, 0]  # Until the closing came what made the depth of 40, and what was settled.
    assert sum(counts[5:]) == 75
    assert [arrivals.count(1.5), len(arrivals)] == [255, 450]
    assert found.blocked == pytest.approx(3.0 / found.seconds / 2)


def test_reader_that_settles_in_batches_is_no_faster_for_that() -> None:
    records = log(left=0)
    for second, each in enumerate(each for each in records if each["event"] == "depth" and each["queue"] == "orders"):
        each["settled_messages"] = 400 if second % 5 == 4 else 0
    workers = record(records, "orders").workload().workers
    (worker,) = workers
    assert worker.rates[2:-1] == (80.0, 80.0, 80.0)
    assert worker.starts[2:-1] == (5.0, 10.0, 15.0)


def test_part_of_a_log() -> None:
    assert record(log(), "orders", START + 5.5, START + 10.5).messages == 500


@pytest.mark.parametrize(
    ("records", "queue", "sentence"),
    [
        ([{"event": "depth", "wall": 1.0, "queue": "orders", "messages": 3}], "orders", "no arrivals: Penstock"),
        (log(), "order", "no arrival at queue 'order' in this time"),
        (log(left=0), "orders", "nothing was consumed from queue 'orders'"),
        (log(seconds=2, came=2_000_000), "orders", "choose a part of it with --from and --to"),
        (log() + log(), "orders", "has queue 'orders' twice at 1970-01-12T13:46:40Z: give the logs of one broker"),
    ],
)
def test_log_that_gives_no_workload(records: list[dict[str, Any]], queue: str, sentence: str) -> None:
    with pytest.raises(RecordingError, match=sentence):
        record(records, queue).workload()


def test_replay_shows_the_effect_of_other_settings() -> None:
    recording: Recording = record(log(), "orders")
    was = recording.candidate().with_changes(window=100)
    comparison = compare(recording, was, was.with_changes(capacity_messages=1000))
    assert comparison.same.crossings > 0
    assert comparison.other.crossings == 0
    text = "\n".join(comparison.lines())
    for part in ("queue orders: 2,000 messages in 20 s", "recorded", "with others", "capacity-messages=1000"):
        assert part in text
    assert set(comparison.as_dict()) == {"recorded", "bound", "simulated", "changed"}
    assert not comparison.as_dict()["bound"]


def test_replay_takes_times_without_a_zone_as_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in log()))
    begin = datetime.fromtimestamp(START + 10, UTC)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        answers = [
            CliRunner().invoke(main, ["replay", str(tmp_path), "--queue", "orders", "--from", text])
            for text in (f"{begin:%Y-%m-%dT%H:%M:%S}", f"{begin:%Y-%m-%dT%H:%M:%SZ}", str(begin.timestamp()), "soon")
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [answer.exit_code for answer in answers] == [0, 0, 0, 1]
    assert answers[0].output == answers[1].output == answers[2].output
    assert answers[3].output.startswith("penstock: 'soon' is no time: give seconds since 1970, or ISO 8601")


def test_recording_that_is_too_large_is_counted_and_not_kept() -> None:
    found = record(log(seconds=3, came=1_000_000), "orders")
    assert (found.messages, found.samples) == (3_000_000, [])


def test_missing_directories_and_queues_are_reported(tmp_path: Path) -> None:
    def plan(*words: str) -> str:
        found = CliRunner().invoke(main, ["plan", *words, "--goal", "blocked<1%", "--local"])
        assert found.exit_code == 1
        return found.output

    (tmp_path / "empty").mkdir()
    assert plan(str(tmp_path / "empty")) == (
        f"penstock: {tmp_path / 'empty'} has no flow log: give a directory with flow-*.jsonl or flow-*.jsonl.gz\n"
    )
    (tmp_path / "archive" / "day=2026-11-22").mkdir(parents=True)
    (tmp_path / "archive" / "day=2026-11-22" / "0.parquet").write_bytes(b"PAR1")
    assert "archive is compacted: give the flow log itself" in plan(str(tmp_path / "archive"))
    (tmp_path / "data" / "flow-log").mkdir(parents=True)
    (tmp_path / "data" / "flow-log" / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in log()))
    assert plan(str(tmp_path / "data"), "--queue", "order") == (
        "penstock: the log has no record of queue 'order' in that time: it has 'orders', 'other'\n"
    )
    assert "is not before --to" in plan(str(tmp_path / "data"), "--queue", "orders", "--from", "20", "--to", "10")


def test_recommended_capacity_holds_the_largest_message(tmp_path: Path) -> None:
    (tmp_path / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in log(seconds=5)))
    words = ["plan", str(tmp_path), "--queue", "orders", "--goal", "depth<=100B", "--local", "--json"]
    found = CliRunner().invoke(main, [*words, "--window", "10", "--prefetch", "10"])
    assert found.exit_code == 1
    answer = json.loads(found.output)
    assert answer["choice"]["settings"]["capacity_bytes"] == 1024
    assert answer["choice"]["outcome"]["settled"] > 0
    assert len({trial["settings"]["capacity_bytes"] for trial in answer["trials"]}) == 1


def test_closings_that_the_log_has_as_sums_count_as_those_with_records() -> None:
    records = log()
    about = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
    brief = {"count": 20, "brief_s": 0.25, "messages": 170, "bytes": 170 * 760}
    records += [{"event": "brief-closings", "wall": START + at, **about, **brief} for at in (10, 11)]
    measures = record(records, "orders").measures()
    assert (measures["crossings"], measures["closed"]) == (41, 1.0 / 20)
    assert (measures["depth_messages"], measures["depth"]) == (170, 170 * 760)


def of_producer(event: str, at: float, **fields: Any) -> dict[str, Any]:
    about = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders", "producer": "a"}
    return {"event": event, "wall": START + at, **about, **fields}


def test_window_and_step_are_those_of_the_log() -> None:
    records = log()
    for number, each in enumerate(each for each in records if each["event"] == "depth"):
        each |= {"unconfirmed": 50 if number % 3 else number, "settlements": 2}
    assert record(records, "orders").candidate().window == 50
    assert {worker.step for worker in record(records, "orders").workload().workers} == {40}
    rising = [{**each, "unconfirmed": place} for place, each in enumerate(records)]
    assert record(rising, "orders").window is None, "a producer that has as many as it made has not used up its window"
    assert record(log(), "orders").window is None
    assert record(log(), "orders").candidate().window == 1000


@pytest.mark.slow
def test_recording_of_blocked_producers_gives_bounds(tmp_path: Path) -> None:
    records = [*log(), of_producer("blocked", 4), of_producer("unblocked", 8), of_producer("brief-blocks", 13,
               count=5, brief_s=1.0), of_producer("gate-closed", 4), of_producer("gate-opened", 8)]  # fmt: skip
    (tmp_path / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    recording = record(records, "orders")
    assert recording.blocked == 5.0 / recording.seconds / 2
    words = ["replay", str(tmp_path), "--queue", "orders"]
    assert "bound:" not in CliRunner().invoke(main, words).output
    said = CliRunner().invoke(main, [*words, "--set", "capacity-messages=1000"]).output
    assert "bound: producers were blocked for 22.5% of the log" in said
    rows = [line.split() for line in said.splitlines()]
    assert [row[-1] for row in rows if row and row[0] in MEASURES] == ["bound"] * len(MEASURES)
    words = ["plan", str(tmp_path), "--queue", "orders", "--goal", "depth<=1MiB", "--local", "--prefetch", "10"]
    said = CliRunner().invoke(main, words).output
    assert "bound: producers were blocked for 22.5% of the log" in said
    marked = [line.split() for line in said.splitlines() if line.endswith("  bound")]
    assert [row[0] for row in marked] == list(SHOWN)
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).output)["bound"]


def test_closed_time_counts_as_in_the_analysis_of_the_whole_log() -> None:
    """Of the recorded time of all runs, whichever queue has the records; a gate may be closed at its begin and end."""
    records = [
        {"event": "start", "wall": 2000.0, "mono": 10.0},
        {"event": "depth", "wall": 2002.0, "mono": 12.0, "queue": "other", "in_messages": 1, "seconds": 1.0},
        *(
            {"event": event, "wall": wall, "mono": mono, "kind": "queue", "queue": "orders", "messages": 1, "bytes": 1}
            for event, wall, mono in [("gate-closed", 2004.0, 14.0), ("gate-opened", 2006.0, 16.0)]
        ),
        {"event": "depth", "wall": 2006.0, "mono": 16.0, "queue": "orders", "in_messages": 5, "settled_messages": 5,
         "seconds": 1.0},
        {"event": "stop", "wall": 2020.0, "mono": 30.0},
        {"event": "start", "wall": 3000.0, "mono": 5.0},
        {"event": "gate-closed", "wall": 3010.0, "mono": 15.0, "kind": "queue", "queue": "orders"},
        {"event": "lost", "wall": 3015.0, "mono": 20.0, "count": 1},
        {"event": "summed", "wall": 3015.0, "mono": 20.0, "count": 2, "vhost": "/"},
    ]  # fmt: skip
    whole = record(records, "orders")
    assert (whole.seconds, whole.measures()["closed"], whole.measures()["crossings"]) == (35.0, 7.0 / 35.0, 2)
    assert (whole.lost, whole.summed) == (1, 2)
    part = record(records, "orders", 2005.0, 3011.0)
    assert (part.seconds, part.measures()["closed"], part.measures()["crossings"]) == (26.0, 2.0 / 26.0, 1)


def test_queue_fills_in_the_replay_as_fast_as_it_was_recorded() -> None:
    """A reader settles 400 at once; four producers need half a second to fill the queue again."""
    about = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
    marks = {"capacity_messages": 410, "stop_messages": 400, "resume_messages": 300}
    records: list[dict[str, Any]] = [
        {"event": "start", "wall": START},
        {"event": "queue", "wall": START, **about, **marks},
    ]
    names = [f"p{number}" for number in range(4)]
    for name in names:
        records.append({"event": "blocked", "wall": START, **about, "producer": name})
        records.append({"event": "producer", "wall": START + 10, **about, "producer": name, "in_messages": 100})
    records.append({"event": "gate-closed", "wall": START, **about, "messages": 401, "bytes": 401 * 760})
    for second in range(1, 21):
        at = START + second
        sample = {"in_messages": 401, "settled_messages": 401, "settlements": 1, "seconds": 1.0, "sizes": SIZES}
        records.append({"event": "depth", "wall": at, **about, "messages": 401, "bytes": 401 * 760, **sample})
        records.append({"event": "gate-opened", "wall": at + 0.2, **about, "messages": 0, "bytes": 0})
        records.append({"event": "gate-closed", "wall": at + 0.7, **about, "messages": 401, "bytes": 401 * 760})
    found = record(records, "orders")
    assert found.pace == pytest.approx(802)
    comparison = compare(found, found.candidate(), None)
    assert found.measures()["closed"] == pytest.approx(0.52, abs=0.03)
    assert comparison.same.closed == pytest.approx(found.measures()["closed"], rel=0.2)
    assert comparison.same.crossings == pytest.approx(found.crossings, rel=0.2)


def test_queue_of_producers_that_are_seldom_blocked_has_no_pace() -> None:
    assert record(log(), "orders").pace == 0.0


def held_log(held: Sequence[int], came: int = 50, consumed: int = 50) -> list[dict[str, Any]]:
    """Return the records of a queue that closes each second, and of what the broker held at its end."""
    records = [*log(seconds=0), of_producer("blocked", 0.5), of_producer("unblocked", len(held) + 1.0)]
    about = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
    for second, messages in enumerate(held, 1):
        sample = {"in_messages": came, "settled_messages": consumed, "settlements": consumed, "seconds": 1.0}
        looks = {"messages": 150, "bytes": 150 * 760, "sizes": SIZES, "held_messages": messages, "unconfirmed": second}
        records.append({"event": "depth", "wall": START + second, **about, **sample, **looks})
        for event, at, depth in (("gate-closed", 0.5, 161), ("gate-opened", 0.9, 120)):
            records.append({"event": event, "wall": START + second + at, **about, "messages": depth, "bytes": 0})
    return records


def test_held_messages_were_offered_when_they_came_and_not_when_the_block_began() -> None:
    held = [60, 70, 80, 90, 100, 110, 120, 130, 140, 150]
    recording = record(held_log(held), "orders")
    offered = [arrival.at for index in (0, 1) for arrival in recording.workload().arrivals_of(index)]
    # The queue had 150 messages at the begin. One is left over between the shares of two producers, now and then.
    assert sum(1 for at in offered if at == 0) == 149
    seconds = Counter(int(at) for at in offered if at > 0)
    assert [seconds[second] for second in range(10)] == [111, *[60] * 9]
    assert recording.is_held
    closed = recording.measures()["closed"]
    assert recording.blocked_share == closed > 0.3, "what producers did not make is in no log, whatever was held"
    little = record(held_log([each // 30 for each in held]), "orders")
    assert not little.is_held, "what fills the queue by 41 at once was not with the broker"
    unknown = record(
        [{name: each[name] for name in each if name != "held_messages"} for each in held_log(held)], "orders"
    )
    assert not unknown.is_held


def test_held_messages_are_offered_in_bursts_if_their_numbers_vary_so() -> None:
    held = [60 if second % 2 else 260 for second in range(10)]
    workload = record(held_log(held, came=200, consumed=200), "orders").workload()
    times = Counter(arrival.at for index in range(len(workload.sources)) for arrival in workload.arrivals_of(index))
    assert sum(times.values()) == pytest.approx(150 + 10 * 200 + held[-1], abs=1)
    assert max(count for at, count in times.items() if at > 0) > 100


def test_services_of_a_second_are_those_that_the_log_has() -> None:
    records = log(seconds=12)
    for second, each in enumerate(each for each in records if each["event"] == "depth" and each["queue"] == "orders"):
        each["settled_messages"] = 40 if second % 2 else 100
    (worker,) = record(records, "orders").workload().workers
    assert worker.rates[2:5] == (100.0, 40.0, 100.0)
