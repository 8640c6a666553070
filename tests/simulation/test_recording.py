"""Recordings: the workload that records of a flow log give, and its replay."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock_simulation.candidate import Candidate
from penstock_simulation.recording import Recording, RecordingError, record
from penstock_simulation.replay import compare

START = 1_000_000.0
SIZES = [0] * 10 + [1]
"""Charges from 512 to 1,023 octets."""


def log(seconds: int = 20, came: int = 100, left: int = 80) -> list[dict[str, Any]]:
    """Return the records of a queue that fills up by 20 messages a second, as a broker writes them."""
    records: list[dict[str, Any]] = [{"event": "start", "wall": START - 1}]
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
        "refused": 0,
    }


def test_what_came_while_producers_were_blocked_is_offered_when_the_block_began() -> None:
    records = log(seconds=6)
    for each in records:
        if each["event"] == "depth" and START + 2 <= each["wall"] <= START + 4:
            each["blocked"] = 1
    arrivals = [int(arrival.at) for arrival in record(records, "orders").workload().arrivals_of(0)]
    assert [arrivals.count(second) for second in range(6)] == [75, 300, 0, 0, 0, 75]


def test_reader_that_settles_in_batches_is_no_faster_for_that() -> None:
    records = log(left=0)
    for second, each in enumerate(each for each in records if each["event"] == "depth" and each["queue"] == "orders"):
        each["settled_messages"] = 400 if second % 5 == 4 else 0
    workers = record(records, "orders").workload().workers
    assert [(worker.starts, worker.rates) for worker in workers] == [((0.0, 10.0), (80.0, 80.0))]


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


def test_replay_tells_what_other_settings_would_have_done() -> None:
    recording: Recording = record(log(), "orders")
    was = recording.candidate().with_changes(window=100)
    comparison = compare(recording, was, was.with_changes(capacity_messages=1000))
    assert comparison.same.crossings > 0
    assert comparison.other is not None
    assert comparison.other.crossings == 0
    text = "\n".join(comparison.lines())
    for part in ("queue orders: 2,000 messages in 20 s", "recorded", "with others", "capacity-messages=1000"):
        assert part in text
    assert set(comparison.as_dict()) == {"recorded", "simulated", "changed"}


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


def test_directories_and_queues_that_are_not_there_are_told(tmp_path: Path) -> None:
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


def test_no_capacity_is_recommended_that_the_largest_message_does_not_fit_into(tmp_path: Path) -> None:
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
