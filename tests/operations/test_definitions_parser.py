"""Definitions of a file: read in steps, or refused with line and key."""

from __future__ import annotations

import json
from typing import Final

import pytest

from penstock.errors import PreconditionFailed
from penstock.operations.definitions_import import rows
from penstock.operations.definitions_parser import LOOKED_AT_ONCE, UNKNOWN_MOST, ParsedDefinitions

SECTIONS: Final = [row.section for row in rows(False)]


def parsed(definitions: object, vhost: str | None = "/") -> ParsedDefinitions:
    found = ParsedDefinitions(json.dumps(definitions, indent=1).encode(), vhost, SECTIONS)
    while not found.complete:
        assert found.read() > 0
    return found


def test_definitions_parser_gives_entries_the_virtual_host_of_the_request() -> None:
    (entry,) = parsed({"queues": [{"name": "a", "durable": True, "auto_delete": False, "arguments": []}]}).entries[
        "queues"
    ]
    assert (entry.text("name"), entry.text("vhost"), entry.flag("durable")) == ("a", "/", True)
    assert entry.table("arguments") == {}, "RabbitMQ writes an empty table as a list at times"


def test_definitions_parser_shows_nothing_of_a_user_that_is_wrong() -> None:
    for user in ({"name": "anna", "password": ["hush"]}, "hush", {"password": "hush"}):
        with pytest.raises(PreconditionFailed, match=r"users\[0\]") as refused:
            parsed({"users": [user]})
        assert "hush" not in str(refused.value)


def test_definitions_parser_checks_many_entries_in_steps() -> None:
    entry = {"durable": True, "auto_delete": False, "arguments": {}}
    data = {"queues": [{"name": f"q{number}", **entry} for number in range(3 * LOOKED_AT_ONCE)]}
    found = ParsedDefinitions(json.dumps(data).encode(), "/", SECTIONS)
    steps = 0
    while not found.complete:
        found.read()
        steps += 1
    assert steps >= 4
    assert len(found.entries["queues"]) == 3 * LOOKED_AT_ONCE


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ({"durable": "yes"}, "queues[0]: durable must be true or false, not 'yes'"),
        ({"name": 7}, "queues[0]: name must be a string, not 7"),
        ({"durabel": True}, "queues[0]: an entry of queues has no key 'durabel'; did you mean durable?"),
        ({}, "queues[0]: an entry of queues needs the key name"),
        ({"a\nb": 1}, r"queues[0]: an entry of queues has no key 'a\nb'; known are"),
    ],
)
def test_definitions_parser_names_line_and_key_of_an_error(queue: dict[str, object], said: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        parsed({"queues": [queue]})
    assert str(refused.value).startswith("line ")
    assert said in str(refused.value)
    assert str(refused.value).endswith("? Nothing was imported" if "?" in said else "; nothing was imported")


ONE_VHOST: Final[dict[str, object]] = {
    "rabbit_version": "4.3.0",
    "rabbitmq_definition_format": "single_virtual_host",
    "original_vhost_name": "shop",
    "metadata": {"description": "", "tags": [], "default_queue_type": "classic"},
    "description": "",
    "limits": {"max-queues": 100},
}


def test_definitions_parser_reads_the_limits_of_a_file_of_one_virtual_host() -> None:
    (limits,) = parsed(ONE_VHOST, "eu").entries["limits"]
    assert (limits.text("vhost"), limits.table("value")) == ("eu", {"max-queues": 100})


@pytest.mark.parametrize(
    ("limits", "vhost", "said"),
    [
        ([], "/", "line 2: limits must be an object, not []"),
        ({"max-queues": 1}, None, "line 2: limits is of one virtual host, and this import is of all"),
    ],
)
def test_definitions_parser_refuses_limits_that_are_not_of_one_virtual_host(
    limits: object, vhost: str | None, said: str
) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        parsed({"limits": limits}, vhost)
    assert said in str(refused.value)
    assert not parsed({"limits": {}}, vhost).entries["limits"]


def lenient(definitions: object) -> ParsedDefinitions:
    found = ParsedDefinitions(json.dumps(definitions, indent=1).encode(), "/", SECTIONS, lenient=True)
    while not found.complete:
        found.read()
    return found


def test_definitions_parser_lists_unknown_keys_up_to_a_bound() -> None:
    keys: dict[str, object] = {f"section{number}": [1] for number in range(UNKNOWN_MOST)}
    found = lenient({**keys, "queues": [{"name": "a"}]})
    assert [each.path for each in found.invalid] == [[key] for key in keys]
    assert [entry.text("name") for entry in found.entries["queues"]] == ["a"]
    with pytest.raises(PreconditionFailed, match=f"more than {UNKNOWN_MOST} unknown keys"):
        lenient({**keys, "further": 1})


def test_definitions_parser_knows_the_version_of_lavinmq() -> None:
    assert parsed({"lavinmq_version": "2.9.1", "queues": []}).entries["queues"] == []
