"""The flow log of a real broker: its records and size, and its state after a kill or a full disk."""

from __future__ import annotations

import re
import signal
import stat
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from penstock.logs import flowlog
from penstock.management.gate_lines import CLOSINGS_AT_ONCE
from penstock.server.record_log import RecordLog
from tests.support.brokers import GRACE, PATIENCE, BrokerProcess, eventually, penstock_command, serving, settings_file
from tests.support.faults import small_disk
from tests.support.raw_client import Peer, open_peer, publish_frames

GATED = {"capacity-messages": 10, "stop-messages": 3, "resume-messages": 1}
LINE_OF = {
    "QUE-1003": "gate-closed", "QUE-1004": "gate-opened", "CHN-1005": "blocked", "CHN-1006": "unblocked",
    "PST-1022": "brief-closings", "PST-1023": "brief-blocks",
}  # fmt: skip
"""Log ids of gates and blocks, with the events of the records that say the same."""


def cross(peer: Peer, queue: str, times: int) -> None:
    """Close and open the gate of a queue that closes above 3 messages, so many times."""
    for _ in range(times):
        peer.say(b"".join(publish_frames(1, "", queue, b"x") for _ in range(4)))
        peer.ask(1, commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk)


def records(folder: Path) -> list[dict[str, Any]]:
    return list(flowlog.read(folder))


def events(folder: Path) -> Counter[str]:
    return Counter(record["event"] for record in records(folder))


def count_of(found: list[dict[str, Any]], event: str) -> int:
    """Return how many spells the records of an event tell: a sum has its count."""
    return sum(record.get("count", 1) for record in found if record["event"] == event)


def test_crossings_and_blocks_are_in_the_flow_log_with_both_times(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "flow-log"
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        with open_peer(broker, properties={}) as peer:
            peer.declare_shared("q", **GATED)
            cross(peer, "q", 50)
            eventually(lambda: count_of(records(folder), "brief-blocks") >= 40, "the sums")
        assert broker.stop() == 0
        seen = records(folder)
        counts = events(folder)
        for line, event in LINE_OF.items():
            assert len(broker.logged(line)) == counts[event], line
    for one, summed in (("gate-closed", "brief-closings"), ("blocked", "brief-blocks")):
        assert count_of(seen, one) + count_of(seen, summed) == 50
    assert counts["gate-closed"] >= CLOSINGS_AT_ONCE
    assert (seen[0]["event"], seen[-1]["event"]) == ("start", "stop")
    crossings = [record for record in seen if record["event"].startswith("gate-")]
    assert [record["event"] for record in crossings] == ["gate-closed", "gate-opened"] * counts["gate-closed"]
    assert crossings[0] | {"wall": 0, "mono": 0} == {
        "v": 1, "event": "gate-closed", "wall": 0, "mono": 0, "id": "QUE-1003", "kind": "queue", "gate": "q",
        "vhost": "/", "queue": "q", "messages": 4, "bytes": 4 * 243,
    }  # fmt: skip
    assert crossings[1]["messages"] == 0
    for record in seen:
        assert set(record) <= set(flowlog.FIELDS)
        assert record["event"] in flowlog.EVENTS
        assert record["v"] == flowlog.VERSION
    apart = [abs((b["wall"] - a["wall"]) - (b["mono"] - a["mono"])) for a, b in pairwise(seen)]
    assert max(apart[1:-1]) < 1
    assert max(apart[0], apart[-1]) < PATIENCE, "who starts or stops looks at one clock after the other"


def test_refusals_losses_and_late_confirmations_are_recorded_with_their_counts(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with serving(tmp_path, "--flow-log", str(folder)) as broker, open_peer(broker, properties={}) as peer:
        peer.declare_shared("reject", capacity_messages=2, overflow="reject")
        peer.declare_shared("ring", capacity_messages=2, overflow="drop-head")
        peer.declare_shared("block", capacity_messages=2, stop_messages=1, hold_deadline=1)
        peer.confirm()
        begun = time.monotonic()
        for queue, count in (("reject", 702), ("ring", 802), ("block", 5)):
            peer.say(b"".join(publish_frames(1, "", queue, b"x") for _ in range(count)))

        def totals() -> dict[tuple[str, str], int]:
            found: Counter[tuple[str, str]] = Counter()
            for record in records(folder):
                if "count" in record:
                    found[record["event"], record["cause"]] += record["count"]
            return dict(found)

        whole = {
            ("refused", "reject"): 700,
            ("dropped", "drop-head"): 800,
            ("refused", "deadline"): 3,
            ("confirmed-late", "deadline"): 1,
        }

        def lines() -> list[str]:
            return [line for each in ("reject", "ring") for line in broker.logged(f"qu({each})] QUE-1005 : Dropped : ")]

        def dropped() -> int:
            return sum(int(line.split("Dropped : ")[1].split()[0].replace(",", "")) for line in lines())

        eventually(lambda: totals() == whole, "all of them")
        eventually(lambda: dropped() == 1500, "all of them in the log, which a thread writes")
        assert re.search(
            r"QUE-1005 : Dropped : \d+ messages, Depth : 486 bytes, 2 messages, Capacity : -1 bytes, 2 messages$",
            lines()[0],
        )
        assert not broker.logged("qu(block)] QUE-1005")
        assert 2 <= len(lines()) <= 2 * (time.monotonic() - begun + 2), "at most one a second for each"
        held = [record for record in records(folder) if record.get("cause") == "deadline"]
        assert {record["queue"] for record in held} == {"block"}
        assert all(record["producer"].endswith("/ch:1") for record in held)
        block = broker.queue("block")["gate"]["producers"][0]
        assert (block["refused"], block["refused_bytes"], block["confirmed_late"]) == (3, 3 * 243, 1)
        assert (block["withheld"], block["withheld_bytes"]) == (1, 243)


def test_files_are_their_owners_and_no_links(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with serving(tmp_path, "--flow-log", str(folder)):
        (path,) = flowlog.files(folder)
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(path.stat().st_mode)) == (0o700, 0o600)
    victim = tmp_path / "victim"
    victim.write_text("not a record")
    path.unlink()
    path.symlink_to(victim)
    refused = penstock_command("serve", "--listen", "127.0.0.1:0", "--http", "off", "--flow-log", str(folder))
    assert refused.returncode == 1
    assert f"cannot write the flow log to '{folder}'" in refused.stderr
    assert victim.read_text() == "not a record"


def test_flow_log_is_absent_without_a_directory_and_when_off(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data), "--flow-log", "off") as broker:
        assert broker.alive()
    assert "flow-log" not in [path.name for path in data.iterdir()]


def test_directory_that_cannot_be_written_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = penstock_command(
        "serve", "--memory", "--listen", "127.0.0.1:0", "--flow-log", str(tmp_path / "file" / "log")
    )
    assert done.returncode == 1
    assert done.stderr == f"penstock: cannot write the flow log to '{tmp_path}/file/log': Not a directory\n"


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Options for files of 8 KiB, three of them."""
    options = settings_file(tmp_path, "[broker]\nflow-log-files = 3\nflow-log-file-bytes = 8192\n")
    return [*options, "--flow-log", str(tmp_path / "log")]


def test_files_are_bounded_in_size_and_number_and_the_oldest_goes_first(tmp_path: Path, small: list[str]) -> None:
    folder = tmp_path / "log"
    with serving(tmp_path, *small) as broker, open_peer(broker, properties={}) as peer:
        for number in range(20):  # Few crossings of each, so that none is summed.
            peer.declare_shared(f"q{number}", **GATED)
            cross(peer, f"q{number}", 9)
            assert len(flowlog.files(folder)) <= 4  # One more while the oldest is being deleted.
        eventually(lambda: len(broker.logged("QUE-1004")) == 180, "the last crossing")
        broker.process.terminate()
        assert peer.refused(0)[0] == 320
        assert broker.process.wait(GRACE) == 0
    kept = flowlog.files(folder)
    assert len(kept) == 3
    assert all(0 < path.stat().st_size <= 8192 for path in kept)
    assert all(path.read_bytes().endswith(b"}\n") for path in kept)
    numbers = [flowlog.FILES.number_of(path) for path in kept]
    assert numbers[0] > 5
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    seen = records(folder)
    assert seen[-1]["event"] == "stop"
    assert "lost" not in events(folder)
    crossings = [record["mono"] for record in seen if record["event"].startswith("gate-")]
    assert crossings == sorted(crossings)


def test_kill_leaves_whole_lines_which_the_next_broker_continues(tmp_path: Path, small: list[str]) -> None:
    folder = tmp_path / "log"
    with serving(tmp_path, *small) as broker, open_peer(broker, properties={}) as peer:
        peer.declare_shared("q", **GATED)
        cross(peer, "q", 10)
        eventually(lambda: events(folder)["gate-opened"] == 10, "all crossings in the file")
        broker.process.kill()
        broker.process.wait(GRACE)
    last = flowlog.files(folder)[-1]
    with last.open("ab") as torn:
        torn.write(b'{"v":1,"event":"gate-clo')
    before = records(folder)
    assert before[-1]["event"] != "stop"
    with serving(tmp_path, *small) as broker:
        assert broker.alive()
        broker.stop()
    after = records(folder)
    assert after[: len(before)] == before
    assert [record["event"] for record in after[len(before) :]][:1] == ["start"]
    assert all(path.read_bytes().endswith(b"\n") for path in flowlog.files(folder))


def test_full_disk_costs_records_which_are_counted_and_no_message(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with (
        small_disk(disk, "64k"),
        serving(tmp_path, "--flow-log", str(disk / "log")) as broker,
        open_peer(broker, properties={}) as peer,
    ):
        peer.declare_shared("q", **GATED)
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 60_000)
        for _ in range(10):
            cross(peer, "q", 20)
        eventually(lambda: broker.logged("cannot be written: No space left on device"), "a word about it")
        cross(peer, "q", 20)
        ballast.unlink()
        _check_losses(broker, peer, disk / "log", deleted=0)


def test_directory_that_is_taken_away_costs_records_which_are_counted_and_no_message(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with serving(tmp_path, "--flow-log", str(folder)) as broker, open_peer(broker, properties={}) as peer:
        peer.declare_shared("q", **GATED)
        cross(peer, "q", 10)
        eventually(lambda: events(folder)["gate-opened"] == 10, "all crossings in the file")
        written = kept(folder)
        for path in flowlog.files(folder):
            path.unlink()
        folder.rmdir()
        folder.write_text("in the way")
        deleted = eventually(lambda: (found := told(broker)) >= written and found, "the lines of what was written")
        cross(peer, "q", 10)
        eventually(lambda: broker.logged("cannot be written: "), "a word about it")
        cross(peer, "q", 10)
        folder.unlink()
        _check_losses(broker, peer, folder, deleted)


def kept(folder: Path) -> int:
    """Return the number of records of gates and blocks in the files."""
    seen = events(folder)
    return sum(seen[event] for event in LINE_OF.values())


def told(broker: BrokerProcess) -> int:
    """Return the number of lines that say the same."""
    return sum(len(broker.logged(line)) for line in LINE_OF)


def _check_losses(broker: BrokerProcess, peer: Peer, folder: Path, deleted: int) -> None:
    """The broker goes on; when there can be records again, one says how many there were not.

    So many records were deleted after they had been written.
    """
    assert broker.alive()

    def lost() -> bool:
        cross(peer, "q", 1)
        return folder.is_dir() and events(folder)["lost"] > 0

    eventually(lost, "a record of the loss")

    def accounted() -> bool:
        """Each line has a record; other records may be among the lost ones."""
        missing = sum(record["count"] for record in records(folder) if record["event"] == "lost")
        return 0 <= kept(folder) + missing - (told(broker) - deleted) < 100

    eventually(accounted, "every record is there or counted")
    assert all(record.get("cause") for record in records(folder) if record["event"] == "lost")
    assert all(line.startswith('{"v":1,') for path in flowlog.files(folder) for line in path.read_text().splitlines())
    assert not broker.logged("Traceback")


def test_writer_that_cannot_keep_up_drops_and_counts_without_delay(tmp_path: Path) -> None:
    log = RecordLog(flowlog.FILES, tmp_path / "log", 2, 1 << 20, waiting_most=1000)
    for number in range(150):  # Nothing is written yet: the writer has not begun.
        log.put([{"event": "depth", "messages": number}] * 10)
    log.start()
    log.stop()
    seen = records(tmp_path / "log")
    kept = [record["messages"] for record in seen if record["event"] == "depth"]
    assert kept == [number for number in range(100) for _ in range(10)]
    (lost,) = [record for record in seen if record["event"] == "lost"]
    assert (lost["count"], lost["cause"]) == (500, "the writer could not keep up")
    assert seen[-1]["event"] == "stop"


def test_change_of_the_settings_is_recorded_with_its_author(tmp_path: Path) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text("[broker]\n")
    folder = tmp_path / "log"
    with serving(tmp_path, "--config", str(config), "--flow-log", str(folder)) as broker:
        for words in (("set", "queue", "orders.#", "stop-percent=60"), ("unset", "queue", "orders.#")):
            assert penstock_command(*words, "--url", broker.url).returncode == 0
        broker.process.send_signal(signal.SIGHUP)

        def changes() -> list[tuple[str, str]]:
            said = [(each["setting"], each["cause"]) for each in records(folder) if each["event"] == "setting"]
            return [(setting, re.sub(r"con:\d+\(.*?\)", "CON", cause)) for setting, cause in said]

        queue = "queue 'orders.#' of vhost '/'"
        expected = [(queue, "set by CON: stop-percent=60"), (queue, "unset by CON: all")]
        eventually(lambda: changes() == [*expected, ("file", f"'{config}' was read again")], "three records")
