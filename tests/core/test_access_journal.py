"""Changes of users go into the journal."""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.errors import ResourceError
from tests.support.restored_broker import journaled


def test_user_change_is_recorded_and_waits_for_the_disk() -> None:
    broker = journaled().broker
    before = broker.durable_changes.durable_declarations
    broker.access.put_user("anna", None, [])
    assert broker.durable_changes.durable_declarations > before
    broker.access.delete_user("anna")
    assert [change.deleted for change in broker.journal.open.changes] == [False, False, True]


def test_broker_without_a_journal_keeps_users_in_memory() -> None:
    broker = Broker(Defaults())
    broker.access.put_user("anna", None, [])
    broker.access.delete_user("anna")
    assert broker.access.names() == ["guest"]


def test_user_change_is_refused_while_the_store_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = journaled().broker
    broker.gates.disk.fault.gate.close(0, 0, 0.0)
    assert broker.journal is not None
    for number in range(9_999):
        broker.access.put_user(f"user{number % 10}", None, [])
    with pytest.raises(ResourceError, match="changes wait for a store that cannot be written"):
        broker.access.put_user("anna", None, [])
    assert broker.access.find("anna") is None
