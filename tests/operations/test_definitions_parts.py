"""Parts of definitions: which broker imports an entry, and one result of several."""

from __future__ import annotations

import pytest

from penstock.describe.table import Row
from penstock.errors import Cancelled, PreconditionFailed, ResourceError
from penstock.management.elsewhere import PartAnswer
from penstock.operations.definitions_import import rows
from penstock.operations.definitions_parser import Entry
from penstock.operations.definitions_parts import (
    HERE,
    OFFICE,
    ORDER,
    SHARD,
    WHOLE,
    failure_of,
    is_imported,
    joined_result,
    needs_vhost,
)

HERE_VHOSTS = ["/", "west"]
ENTRIES: dict[str, tuple[Row, tuple[str, ...]]] = {
    "vhosts": ({"name": "west"}, (OFFICE, HERE)),
    "users": ({"name": "ada"}, (OFFICE, HERE)),
    "permissions": ({"user": "ada", "vhost": "west"}, (OFFICE, HERE)),
    "topic_permissions": ({"user": "ada", "vhost": "west"}, (OFFICE, HERE)),
    "global_parameters": ({"name": "g"}, (OFFICE, HERE)),
    "limits": ({"vhost": "west"}, (OFFICE, HERE)),
    "settings": ({"scope": "queue", "pattern": "west/orders"}, (SHARD, HERE)),
    **{name: ({"vhost": "west", "name": "x"}, (SHARD, HERE))
       for name in ("parameters", "policies", "operator_policies", "exchanges", "queues", "bindings")},
}  # fmt: skip
"""An entry of each kind, and the parts that have it where its virtual host is."""


def test_order_of_kinds_is_that_of_imports() -> None:
    assert [each.section.name for each in rows(False)] == list(ORDER)
    assert ENTRIES.keys() == set(ORDER)


@pytest.mark.parametrize("kind", ENTRIES)
def test_entry_is_imported_by_the_broker_of_its_vhost_or_by_the_office(kind: str) -> None:
    fields, parts = ENTRIES[kind]
    entry = Entry(kind, 0, dict(fields))
    found = [part for part in (OFFICE, SHARD, HERE) if is_imported(part, kind, entry, HERE_VHOSTS)]
    assert found == list(parts)
    assert is_imported(WHOLE, kind, entry, [])


@pytest.mark.parametrize("kind", ENTRIES)
def test_entry_of_another_vhost_is_left_to_its_broker(kind: str) -> None:
    entry = Entry(kind, 0, dict(ENTRIES[kind][0]))
    of_all = kind in ("users", "global_parameters")
    assert is_imported(HERE, kind, entry, ["/"]) == of_all
    assert not is_imported(SHARD, kind, entry, ["/"])


def test_settings_without_a_vhost_are_for_each_shard() -> None:
    for fields in ({"scope": "queue", "pattern": "orders"}, {"scope": "user", "pattern": "ada"}):
        assert is_imported(SHARD, "settings", Entry("settings", 0, dict(fields)), [])


def test_vhost_is_needed_by_what_shards_import() -> None:
    needing = [kind for kind, (fields, _) in ENTRIES.items() if needs_vhost(kind, Entry(kind, 0, dict(fields)))]
    assert needing == ["parameters", "policies", "operator_policies", "exchanges", "queues", "bindings"]


def result(**made: int) -> Row:
    return {"made": made, "changed": {}, "not_imported": {"x": 1}, "skipped": [], "overflow": ["o"], "notes": []}


def test_results_are_added_and_copies_count_once() -> None:
    joined = joined_result([result(users=1, settings=2), result(queues=3, settings=2), result(queues=4)])
    assert joined["made"] == {"users": 1, "settings": 2, "queues": 7}
    assert joined["overflow"] == ["o"]
    assert joined["not_imported"] == {"x": 1}


def test_failure_names_the_shards_with_and_without_their_parts() -> None:
    fault = PreconditionFailed("line 3, queues[0]: no; nothing was imported")
    parts = [PartAnswer("1", result()), PartAnswer("2", fault), PartAnswer("3", fault), PartAnswer("4", result())]
    error = failure_of(parts, False)
    assert str(error) == (
        "line 3, queues[0]: no; of shards '2', '3' nothing was imported; users, virtual hosts and permissions of the "
        "file are imported, and the part of shards '1', '4'"
    )
    assert str(failure_of(parts[1:3], False)).endswith("permissions of the file are imported")
    assert str(failure_of(parts, True)) == "line 3, queues[0]: no (shard '2')"
    assert failure_of([parts[0]], False) is None
    silent = failure_of([PartAnswer("1", ResourceError("shard '1' has not answered"), False)], False)
    assert str(silent) == (
        "shard '1' has not answered; nobody knows what shard '1' imported; users, virtual hosts and permissions of the "
        "file are imported"
    )
    assert isinstance(failure_of([PartAnswer("1", Cancelled("cancelled by user 'ada'"))], False), Cancelled)
