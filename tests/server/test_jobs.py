"""Jobs of a broker that is killed: the store has what they did, each object whole, and the work can be done again."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.sync import Connection, connect
from tests.support.brokers import serving

QUEUES = [
    {"vhost": "large", "name": f"q{number}", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}
    for number in range(8000)
]
DEFINED = json.dumps({
    "vhosts": [{"name": "large"}],
    "queues": QUEUES,
    "bindings": [
        {"vhost": "large", "source": "amq.topic", "destination": f"q{number}", "destination_type": "queue",
         "routing_key": "a.#"}
        for number in range(0, 8000, 100)
    ],
})  # fmt: skip


def begun(control: Connection, job: dict[str, object]) -> None:
    """Ask until a job has done its first units; it must not have ended by then."""
    while job["done"] == 0:
        job = control.request("job.show", id=job["id"])
    assert job["state"] == "running", job


def names(control: Connection) -> set[str]:
    return {str(each["name"]) for each in control.list("queues", everywhere=True) if each["vhost"] == "large"}


def test_import_that_a_kill_cut_off_is_completed_by_another_import(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, connect(broker.url) as control:
        begun(control, control.import_definitions(DEFINED, detach=True))
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, connect(broker.url) as control:
        assert control.request("job.list")["jobs"] == [], "jobs are not stored"
        found = names(control)
        assert found <= {str(each["name"]) for each in QUEUES}
        made = control.import_definitions(DEFINED)["made"]
        assert made.get("queues", 0) == len(QUEUES) - len(found)
        assert len(names(control)) == len(QUEUES)


def test_virtual_host_whose_deletion_a_kill_cut_off_can_be_used_and_deleted(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, connect(broker.url) as control:
        control.import_definitions(DEFINED)
        begun(control, control.request("vhost.delete", name="large", detach=True))
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, connect(broker.url) as control:
        found = names(control)
        assert 0 < len(found) <= len(QUEUES)
        kept = sorted(found)[0]
        with connect(f"{broker.url}large") as inside:
            assert inside.request("show", queue=kept)
        control.delete_vhost("large")
        assert names(control) == set()
