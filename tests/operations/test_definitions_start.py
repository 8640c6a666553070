"""Definitions at the start: files are imported where they differ, in order, and all or none."""

from __future__ import annotations

import json

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.flow.work import finish
from penstock.operations.definitions_start import NOTES_LOGGED, DefinitionsFile, check_file, import_files_steps
from tests.support.driven_connection import make_driver

QUEUE = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = {"name": "logs", "vhost": "/", "type": "topic", "durable": True}
BINDING = {
    "source": "logs", "vhost": "/", "destination": "orders", "destination_type": "queue", "routing_key": "#",
    "arguments": {},
}  # fmt: skip
POLICY = {"vhost": "/", "name": "short", "pattern": "^orders$", "definition": {"max-length": 10}}


def file(name: str, indent: int | None = None, **sections: object) -> DefinitionsFile:
    return DefinitionsFile(name, json.dumps(sections, indent=indent).encode())


def imported(driver: BrokerDriver, *files: DefinitionsFile) -> list[str]:
    """Import files; return the log lines about them."""
    driver.log_queue.take()
    finish(import_files_steps(driver, list(files)))
    return [line.text for line in driver.log_queue.take() if line.fields["id"] == "PST-2064"]


def test_folder_is_imported_in_order_so_that_files_use_earlier_ones() -> None:
    driver = make_driver()
    files = [file("1.json", queues=[QUEUE]), file("2.json", exchanges=[EXCHANGE], bindings=[BINDING])]
    assert imported(driver, *files) == [
        "definitions '1.json': imported; 1 queue created",
        "definitions '2.json': imported; 1 exchange, 1 binding created",
    ]
    vhost = driver.broker.vhost("/")
    assert vhost.exchange("logs").find(vhost.queue("orders"), None, "#", {}) is not None


def test_file_that_equals_the_broker_changes_nothing() -> None:
    driver = make_driver()
    same = file("a.json", queues=[QUEUE], policies=[POLICY])
    imported(driver, same)
    table, queue = driver.broker.table.policies.all(), driver.broker.vhost("/").queue("orders")
    assert imported(driver, same) == ["definitions 'a.json': unchanged; nothing was imported"]
    assert driver.broker.table.policies.all() == table
    assert driver.broker.vhost("/").queue("orders") is queue


def test_changed_entries_are_counted_in_the_log() -> None:
    driver = make_driver()
    imported(driver, file("a.json", queues=[QUEUE], policies=[POLICY]))
    changed = {**POLICY, "definition": {"max-length": 20}}
    lines = imported(driver, file("a.json", queues=[QUEUE], policies=[changed]))
    assert lines[0] == "definitions 'a.json': imported; nothing created; 1 policy changed"


def test_error_in_the_last_file_undoes_all_and_names_file_line_and_key() -> None:
    driver = make_driver()
    bad = file("2.json", indent=1, exchanges=[EXCHANGE], queues=[{**QUEUE, "name": "b", "durabel": True}])
    with pytest.raises(PreconditionFailed) as refused:
        imported(driver, file("1.json", queues=[QUEUE], policies=[POLICY]), bad)
    assert str(refused.value) == (
        "definitions '2.json': line 17, queues[0]: an entry of queues has no key 'durabel'; did you mean durable? "
        "Nothing was imported"
    )
    vhost = driver.broker.vhost("/")
    assert not vhost.queues
    assert "logs" not in vhost.exchanges
    assert not driver.broker.table.policies.all()


def test_entry_refused_by_the_broker_undoes_entries_of_its_own_file() -> None:
    driver = make_driver()
    with pytest.raises(PreconditionFailed, match=r"^definitions 'a\.json': line 1, bindings\[0\]: no queue 'orders'"):
        imported(driver, file("a.json", exchanges=[EXCHANGE], bindings=[BINDING]))
    assert "logs" not in driver.broker.vhost("/").exchanges


def test_existing_queue_with_other_arguments_is_refused_and_stays() -> None:
    driver = make_driver()
    imported(driver, file("a.json", queues=[QUEUE]))
    with pytest.raises(PreconditionFailed, match="queue 'orders' in vhost '/'"):
        imported(driver, file("a.json", queues=[{**QUEUE, "arguments": {"capacity-messages": 5}}]))
    assert driver.broker.vhost("/").queue("orders").thresholds.capacity.messages > 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b'{"queues": [', "line 1"), (b"", "line 1"), (b"[]", "line 1"), (b'{"queuez": []}', "did you mean queues?")],
)
def test_file_that_is_no_definitions_is_refused_with_its_name(data: bytes, reason: str) -> None:
    for check in (
        lambda: imported(make_driver(), DefinitionsFile("a.json", data)),
        lambda: check_file(DefinitionsFile("a.json", data)),
    ):
        with pytest.raises(PreconditionFailed, match=r"^definitions 'a\.json': ") as refused:
            check()
        assert reason in str(refused.value)


def test_check_without_a_broker_accepts_a_valid_file() -> None:
    check_file(file("a.json", queues=[QUEUE], exchanges=[EXCHANGE], bindings=[BINDING]))


def test_warnings_in_the_log_are_bounded() -> None:
    driver = make_driver()
    policies = [{**POLICY, "name": f"p{n}", "definition": {"ha-mode": "all"}} for n in range(NOTES_LOGGED + 5)]
    lines = imported(driver, file("a.json", policies=policies))
    assert sum("ha-mode" in line for line in lines) <= NOTES_LOGGED
