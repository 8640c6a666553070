"""`penstock jobs`, and commands with --detach, against a broker on a real port."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.brokers import BrokerProcess, serving
from tests.support.commands import listed, run, told


def job_of(sentence: str) -> str:
    """Return the number of the job in the sentence of --detach."""
    found = re.fullmatch(r"job (\d+) is \w+; `penstock jobs show \1` shows its progress\n", sentence)
    assert found is not None, sentence
    return found[1]


def ended(broker: BrokerProcess, job: str) -> str:
    """Return what is shown of a job when it has ended."""
    while True:
        shown = run(broker, "jobs", "show", job)
        if not re.search(r" is (waiting|running)", shown.splitlines()[0]):
            return shown


def test_detached_import_is_shown_listed_and_cancelled(own_broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    file.write_text(json.dumps({"queues": [{"vhost": "/", "name": f"q{number}"} for number in range(19_000)]}))
    job = job_of(run(own_broker, "definitions", "import", str(file), "--detach"))
    assert run(own_broker, "jobs", "cancel", job) == f"job {job} is being cancelled\n"
    cancelled = "is cancelled: cancelled by user 'guest'; nothing was imported"
    assert ended(own_broker, job) == f"job {job} (definitions.import, all vhosts) {cancelled}\n"
    refused = run(own_broker, "jobs", "cancel", job, code=1)
    assert refused.startswith(f"penstock: job {job} (definitions.import, all vhosts) was cancelled already")
    assert told(own_broker, "jobs", "show", job)["state"] == "cancelled"
    rows = run(own_broker, "jobs", "list", "--json")
    assert [(row["id"], row["state"]) for row in map(json.loads, rows.splitlines())] == [(int(job), "cancelled")]
    assert listed(own_broker, "queues") == []


def test_detached_deletion_names_its_job_and_its_result(own_broker: BrokerProcess, tmp_path: Path) -> None:
    run(own_broker, "vhosts", "declare", "staging")
    job = job_of(run(own_broker, "vhosts", "delete", "staging", "--detach"))
    assert ended(own_broker, job) == f"job {job} (vhost.delete, vhost 'staging') is done: 0 of 0 queues\n"
    file = tmp_path / "broker.json"
    file.write_text('{"queues": [{"name": "q"}]}')
    job = job_of(run(own_broker, "definitions", "import", str(file), "--here", "--detach"))
    assert ended(own_broker, job) == (
        f"job {job} (definitions.import, vhost '/') is done: 1 of 1 entries\nmade: 1 queues\n"
    )
    assert run(own_broker, "vhosts", "delete", "staging", "--if-exists") == "vhost staging does not exist\n"
    assert run(own_broker, "jobs", "show", "99", code=1).startswith("penstock: no job 99: the last 100 finished jobs")


def test_filtered_move_of_a_paging_queue_says_what_stays_unread(tmp_path: Path, store: tuple[str, str]) -> None:
    lines = "\n".join(json.dumps({"payload": f"{number}"}) for number in range(500))
    (tmp_path / "messages.jsonl").write_text(lines)
    with serving(tmp_path, *store) as broker:
        run(broker, "queues", "declare", "q", "overflow=page", "capacity-messages=100")
        run(broker, "queues", "declare", "other")
        run(broker, "queues", "publish", "q", "--json", "--file", str(tmp_path / "messages.jsonl"))
        first, second, third = run(broker, "queues", "move", "q", "other", "--filter", "none = 1").splitlines()
        assert first == "0 messages moved from queue 'q' to queue 'other'"
        looked, left = (int(line.split()[0]) for line in (second, third))
        assert (looked + left, left > 0, second.endswith("messages not matched by the filter")) == (500, True, True)
        assert third.startswith(f"{left} messages left in queue 'q': they are on the disk, and messages that stay fill")
        said = run(broker, "queues", "copy", "q", "other", "--filter", "none = 1").splitlines()
        assert said[1:] == ["500 messages not matched by the filter"]
