"""An import: all of it, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.work import finish
from penstock.operations.definitions_import import ImportOptions, import_steps
from tests.support.at_once import import_definitions
from tests.support.driven_connection import make_driver
from tests.support.operation_calls import ask

QUEUE: dict[str, object] = {"name": "a", "durable": False, "auto_delete": False, "arguments": {}}
EXCHANGE: dict[str, object] = {
    "name": "e", "type": "topic", "durable": False, "auto_delete": False, "internal": False, "arguments": {},
}  # fmt: skip
BINDING: dict[str, object] = {
    "source": "e", "destination": "a", "destination_type": "queue", "routing_key": "k", "arguments": {},
}  # fmt: skip


def test_definitions_import_creates_all_entries_and_counts_new_ones() -> None:
    driver = make_driver()
    vhost = driver.broker.vhost("/")
    definitions = {"queues": [QUEUE], "exchanges": [EXCHANGE], "bindings": [BINDING]}
    assert import_definitions(driver, definitions)["made"] == {"queues": 1, "exchanges": 1, "bindings": 1}
    assert vhost.exchange("e").find(vhost.queue("a"), None, "k", {}) is not None
    assert not any(dict(import_definitions(driver, definitions)["made"]).values())  # type: ignore[call-overload]


def test_definitions_import_that_fails_undoes_its_changes() -> None:
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
def test_definitions_import_lists_queues_whose_overflow_changes(section: str) -> None:
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


ONE_VHOST: dict[str, object] = {
    "rabbitmq_definition_format": "single_virtual_host",
    "original_vhost_name": "shop",
    "metadata": {"description": "", "tags": [], "default_queue_type": "classic"},
    "description": "",
    "limits": {"max-queues": 100},
    "parameters": [{"component": "vhost-limits", "name": "limits", "value": {"max-queues": 100}}],
    "queues": [QUEUE],
}


def test_definitions_import_applies_the_limits_of_a_file_of_one_virtual_host() -> None:
    driver = make_driver()
    told: Any = finish(import_steps(driver, json.dumps(ONE_VHOST, indent=1).encode(), "/", dry_run=True))
    assert [(each["line"], each["subject"], each["change"]) for each in told["differences"]] == [
        (23, "queue 'a' in vhost '/'", "created"),
        (10, "limits of vhost '/'", "created"),
    ]
    assert import_definitions(driver, ONE_VHOST)["made"] == {"queues": 1, "limits": 1}
    assert driver.broker.access.vhost_limits == {"/": {"max-queues": 100}}
    assert import_definitions(driver, ONE_VHOST)["made"] == {}
    assert import_definitions(driver, {**ONE_VHOST, "limits": {}, "parameters": []})["changed"] == {}
    with pytest.raises(PreconditionFailed, match="limits of vhost '/' is defined twice in the file, with different"):
        import_definitions(driver, {**ONE_VHOST, "limits": {"max-queues": 5}})


def test_definitions_import_names_the_line_of_refused_limits() -> None:
    driver = make_driver()
    definitions = {"queues": [QUEUE], "limits": {"max-qeues": 5}}
    with pytest.raises(PreconditionFailed, match=r"line \d+, limits: unknown limit 'max-qeues'; known are max-"):
        import_definitions(driver, definitions)
    told: Any = import_definitions(driver, definitions, options=ImportOptions(skip_refused=True))
    assert [(each["subject"], each["change"]) for each in told["skipped"]] == [("limits of vhost '/'", "skipped")]
    assert "a" in driver.broker.vhost("/").queues
    assert import_definitions(driver, definitions, options=ImportOptions(skip=["limits"]))["not_imported"] == {
        "limits": 1
    }


def test_definitions_import_skips_and_names_unknown_keys_on_request() -> None:
    driver = make_driver()
    definitions = {"queues": [QUEUE], "shovels": [{"name": "s"}], "quues": 1}
    with pytest.raises(
        PreconditionFailed, match=r"a file of definitions has no key 'shovels'; known are .*; nothing was imported"
    ):
        import_definitions(driver, definitions)
    told: Any = import_definitions(driver, definitions, dry_run=True)
    assert [(each["subject"], each["change"]) for each in told["differences"]][:2] == [
        ("shovels", "refused"),
        ("quues", "refused"),
    ]
    assert not driver.broker.vhost("/").queues
    answer: Any = import_definitions(driver, definitions, options=ImportOptions(skip_refused=True))
    assert [(each["subject"], each["change"]) for each in answer["skipped"]] == [
        ("shovels", "skipped"),
        ("quues", "skipped"),
    ]
    assert answer["skipped"][1]["reason"] == "a file of definitions has no key 'quues'; did you mean queues?"
    assert "a" in driver.broker.vhost("/").queues


def test_definitions_import_takes_a_file_of_lavinmq() -> None:
    driver = make_driver()
    policy = {
        "name": "p", "vhost": "/", "pattern": ".*", "apply-to": "all", "priority": 0, "definition": {"max-length": 5},
    }  # fmt: skip
    file: dict[str, object] = {
        "lavinmq_version": "2.9.1",
        "users": [
            {
                "name": "anna",
                "password_hash": "A" * 48,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": "",
            }
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "anna", "vhost": "/", "configure": "", "read": "", "write": ""}],
        "queues": [{**QUEUE, "vhost": "/", "arguments": {"x-deduplication-header": "id"}}],
        "exchanges": [{**EXCHANGE, "vhost": "/", "arguments": {"x-cache-size": 5}}],
        "bindings": [{**BINDING, "vhost": "/"}],
        "policies": [policy],
        "parameters": [],
        "global_parameters": [],
    }
    answer: Any = import_definitions(driver, file, None)
    assert answer["skipped"] == []
    assert answer["notes"] == [
        "exchange 'e' in vhost '/': argument x-cache-size of an exchange has no effect: messages are not compared",
        "queue 'a' in vhost '/': argument x-deduplication-header of a queue has no effect: messages are not compared",
    ]


def of_host(vhost: str, *names: str) -> list[dict[str, object]]:
    """Return queues of a virtual host."""
    return [{**QUEUE, "name": name, "vhost": vhost} for name in names]


def moved(driver: BrokerDriver, of: str = "", dry_run: bool = False, **sections: object) -> Any:
    """Import entries of one virtual host of a file into the virtual host new."""
    return import_definitions(driver, sections, "new", ImportOptions(moves=True, of=of), dry_run)


@pytest.fixture
def driver() -> BrokerDriver:
    made = make_driver()
    made.broker.add_vhost("new")
    return made


def test_entries_of_the_only_virtual_host_are_moved_into_another(driver: BrokerDriver) -> None:
    policy = {"vhost": "old", "name": "short", "pattern": "^a$", "definition": {"max-length": 10}}
    exchange, binding = {**EXCHANGE, "vhost": "old"}, {**BINDING, "vhost": "old"}
    queues = [*of_host("old", "a"), {**QUEUE, "name": "none"}]
    answer = moved(driver, queues=queues, exchanges=[exchange], bindings=[binding], policies=[policy])
    assert answer["made"] == {"policies": 1, "exchanges": 1, "queues": 2, "bindings": 1}
    vhost = driver.broker.vhost("new")
    assert vhost.exchange("e").find(vhost.queue("a"), None, "k", {}) is not None
    assert [each.vhost for each in driver.broker.table.policies.all()] == ["new"]
    assert not driver.broker.vhost("/").queues


def test_users_and_other_entries_of_no_virtual_host_are_left_out_and_counted(driver: BrokerDriver) -> None:
    user = {"name": "eve", "password_hash": "", "tags": "administrator"}
    permission = {"user": "eve", "vhost": "old", "configure": ".*", "write": ".*", "read": ".*"}
    answer = moved(
        driver,
        users=[user],
        vhosts=[{"name": "old"}, {"name": "other"}],
        permissions=[permission],
        global_parameters=[{"name": "g", "value": 1}],
        queues=of_host("old", "a"),
    )
    assert answer["not_imported"] == {"users": 1, "vhosts": 2, "permissions": 1, "global_parameters": 1}
    assert "eve" not in driver.broker.access.names()
    assert "old" not in driver.broker.vhosts


@pytest.mark.parametrize("dry_run", [False, True])
def test_file_of_several_virtual_hosts_needs_a_choice(driver: BrokerDriver, dry_run: bool) -> None:
    queues = [*of_host("one", "a"), *of_host("two", "b")]
    with pytest.raises(PreconditionFailed) as refused:
        moved(driver, dry_run=dry_run, queues=queues)
    assert str(refused.value) == (
        "line 1, queues[1]: the file has entries of vhost 'one' and of vhost 'two'; choose one to import; "
        "nothing was imported"
    )
    assert not driver.broker.vhost("new").queues
    answer = moved(driver, "two", queues=queues)
    assert (answer["made"], answer["not_imported"]) == ({"queues": 1}, {"queues": 1})
    assert set(driver.broker.vhost("new").queues) == {"b"}


def test_chosen_virtual_host_that_the_file_lacks_is_refused(driver: BrokerDriver) -> None:
    with pytest.raises(PreconditionFailed, match="no entry of vhost 'three'; it has entries of vhost 'one'"):
        moved(driver, "three", queues=of_host("one", "a"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"move": True, "everywhere": True}, "'move' imports entries into one virtual host"),
        ({"of": "old"}, "'of' chooses the entries that 'move' imports"),
        ({"move": "yes"}, "'move' must be"),
    ],
)
def test_contradicting_options_of_a_move_are_refused(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(PreconditionFailed, match=reason):
        ask(make_driver(), "definitions.import", {"definitions": "{}", **fields})


def test_dry_run_orders_entries_by_verdict_with_name_and_vhost() -> None:
    driver = make_driver()
    driver.broker.vhost("/").declare_queue("there", {}, False, False, None, None)
    there = {**QUEUE, "name": "there"}
    bad = {**QUEUE, "name": "bad", "arguments": {"capacity-bites": 1}}
    ha = {"name": "ha", "pattern": ".*", "definition": {"ha-mode": "all"}}
    file = {"queues": [QUEUE, there, bad], "exchanges": [EXCHANGE], "bindings": [BINDING], "policies": [ha]}
    told: Any = import_definitions(driver, file, dry_run=True)
    assert [(each["verdict"], each["kind"], each["vhost"], each["name"]) for each in told["differences"]] == [
        ("refused", "queues", "/", "bad"),
        ("without effect", "policies", "/", "ha"),
        ("created", "exchanges", "/", "e"),
        ("created", "queues", "/", "a"),
        ("created", "bindings", "/", "e → a"),
    ]
    counts = {"refused": 1, "without effect": 1, "changed": 0, "created": 3, "as it is": 1}
    assert told["counts"] == counts
    options = ImportOptions(skip_refused=True)
    told = finish(import_steps(driver, json.dumps(file).encode(), "/", options, dry_run=True))
    assert told["counts"] == counts
    made: Any = finish(import_steps(driver, json.dumps(file).encode(), "/", options))
    assert [(each["verdict"], each["vhost"], each["name"]) for each in made["skipped"]] == [("refused", "/", "bad")]
