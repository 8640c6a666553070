"""An import: all of it, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.work import finish
from penstock.operations.definitions_import import ImportOptions, import_steps
from tests.support.at_once import import_definitions
from tests.support.driven_connection import make_driver

QUEUE: dict[str, object] = {"name": "a", "durable": False, "auto_delete": False, "arguments": {}}
EXCHANGE: dict[str, object] = {
    "name": "e", "type": "topic", "durable": False, "auto_delete": False, "internal": False, "arguments": {},
}  # fmt: skip
BINDING: dict[str, object] = {
    "source": "e", "destination": "a", "destination_type": "queue", "routing_key": "k", "arguments": {},
}  # fmt: skip


def test_definitions_import_makes_everything_and_counts_what_is_new() -> None:
    driver = make_driver()
    vhost = driver.broker.vhost("/")
    definitions = {"queues": [QUEUE], "exchanges": [EXCHANGE], "bindings": [BINDING]}
    assert import_definitions(driver, definitions)["made"] == {"queues": 1, "exchanges": 1, "bindings": 1}
    assert vhost.exchange("e").find(vhost.queue("a"), None, "k", {}) is not None
    assert not any(dict(import_definitions(driver, definitions)["made"]).values())  # type: ignore[call-overload]


def test_definitions_import_that_fails_takes_back_what_it_made() -> None:
    driver = make_driver()
    vhost = driver.broker.vhost("/")
    with pytest.raises(PreconditionFailed):
        import_definitions(driver, {"queues": [QUEUE, {**QUEUE, "name": "b", "arguments": {"capacity-bites": 1}}]})
    assert not vhost.queues
    vhost.declare_queue("a", {"capacity-messages": 5}, False, False, None, None)
    with pytest.raises(PreconditionFailed):
        import_definitions(driver, {"exchanges": [EXCHANGE], "queues": [QUEUE]})
    assert vhost.queues.keys() == {"a"}
    assert "e" not in vhost.exchanges


def gathered(section: str, bad: str) -> dict[str, object]:
    """Return ten policies, or settings of patterns; of those of `bad` a broker without a disk refuses what pages."""
    entries: list[dict[str, object]] = []
    for name in "abcdefghij":
        words = {"overflow": "page"} if name in bad else {"max-length": 5}
        if section == "policies":
            entries.append({"name": name, "pattern": f"^{name}$", "definition": words})
        else:
            entries.append({"scope": "queue", "pattern": name, "settings": words})
    return {section: entries}


@pytest.mark.parametrize("section", ["policies", "settings"])
def test_definitions_import_tells_which_queues_overflow_otherwise(section: str) -> None:
    driver = make_driver()
    driver.broker.vhost("/").declare_queue("a", {"capacity-messages": 4}, False, False, None, None)
    text = json.dumps(gathered(section, "")).encode()
    told: Any = finish(import_steps(driver, text, "/", dry_run=True))
    answer: Any = finish(import_steps(driver, text, "/"))
    assert answer["overflow"] == told["overflow"] == [
        "overflow changes for queue a: drops its oldest messages above 5 ready messages and holds publishers at 4 "
        "messages; before: holds publishers at 4 messages"
    ]  # fmt: skip
    again: Any = finish(import_steps(driver, text, "/"))
    assert again["overflow"] == []


@pytest.mark.parametrize("section", ["policies", "settings"])
@pytest.mark.parametrize("bad", ["", "a", "j", "cd", "afj", "abcdefghij"])
def test_definitions_import_finds_those_that_existing_queues_refuse(section: str, bad: str) -> None:
    driver = make_driver()
    vhost = driver.broker.vhost("/")
    for name in "abcdefghij":
        vhost.declare_queue(name, {}, False, False, None, None)
    text, options = json.dumps(gathered(section, bad)).encode(), ImportOptions([], skip_refused=True)
    told: Any = finish(import_steps(driver, text, "/", options, dry_run=True))
    answer: Any = finish(import_steps(driver, text, "/", options))
    for skipped in (answer["skipped"], [each for each in told["differences"] if each["change"] == "skipped"]):
        assert [each["subject"].split("'")[1] for each in skipped] == list(bad)
        assert all("needs a data directory" in each["reason"] for each in skipped)
    assert answer["made"] == ({section: 10 - len(bad)} if len(bad) < 10 else {})
    for name in "abcdefghij":
        assert vhost.queue(name).settings.length.messages == (UNLIMITED if name in bad else 5)


@pytest.mark.parametrize("section", ["policies", "settings"])
def test_definitions_import_tries_policies_and_settings_on_queues_of_the_same_file(section: str) -> None:
    driver = make_driver()
    queue = {**QUEUE, "arguments": {"stop-messages": 3}}
    text = json.dumps({**gathered(section, "a"), "queues": [queue]}).encode()
    for options in (ImportOptions([]), ImportOptions([], skip_refused=True)):
        told: Any = finish(import_steps(driver, text, "/", options, dry_run=True))
        try:
            answer: Any = finish(import_steps(driver, text, "/", options))
            assert [each["subject"] for each in answer["skipped"]] == [
                each["subject"] for each in told["differences"] if each["change"] == "skipped"
            ] != []  # fmt: skip
        except PreconditionFailed:
            assert [each["change"] for each in told["differences"]].count("refused") > 0


def test_definitions_import_names_arguments_of_queues_without_effect() -> None:
    queue = {**QUEUE, "arguments": {"x-queue-leader-locator": "balanced", "x-max-length": 5}}
    for dry_run in (True, False):
        found = import_definitions(make_driver(), {"queues": [queue]}, dry_run=dry_run)
        said = [each["note"] for each in found["differences"]] if dry_run else found["notes"]
        (note,) = said
        assert note.endswith("argument x-queue-leader-locator of a queue has no effect: a queue is on one node")
