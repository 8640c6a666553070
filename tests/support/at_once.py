"""Work in steps, done at once: for tests that are not about the steps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penstock.core.broker import Broker
from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import Journal
from penstock.core.settings import changes
from penstock.core.settings.changes import EntryBefore
from penstock.core.settings.table import SettingsChange
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import WorkMeter, finish
from penstock.operations.definitions_import import ImportOptions, import_steps
from penstock.persistence.metadata_records import MetadataRecord
from penstock.persistence.restore import restore_steps
from penstock.persistence.settlements import StoreTransaction, encode_steps
from penstock.settings.read import read_settings
from penstock.settings.table import SettingValue


def set_settings(broker: Broker, scope: str, pattern: str, words: dict[str, SettingValue]) -> SettingsChange:
    """Set these settings by command."""
    return finish(changes.set_settings_steps(broker, scope, pattern, words))


def set_named(broker: Broker, scope: str, pattern: str, **settings: object) -> SettingsChange:
    """Set settings by command, as an operator writes them; names with underscores for hyphens."""
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    return set_settings(broker, scope, pattern, read_settings(scope, pattern, given))


def set_all(broker: Broker, entries: list[EntryBefore]) -> SettingsChange:
    """Replace all settings that were set by command for these patterns."""
    return finish(changes.set_all_steps(broker, entries))


def remove(broker: Broker, scope: str, pattern: str, names: list[str]) -> SettingsChange:
    """Remove these settings of a pattern, or all if none is named."""
    return finish(changes.remove_steps(broker, scope, pattern, names))


def replace_file(broker: Broker, entries: list[EntryBefore]) -> SettingsChange:
    """Replace all settings of the settings file."""
    return finish(changes.replace_file_steps(broker, entries))


def encode(journal: Journal, groups: list[JournalGroup], wall_offset: float) -> StoreTransaction:
    """Return the transaction for these groups."""
    return finish(encode_steps(journal, groups, wall_offset, WorkMeter()))


def restore(broker: Broker, records: Iterable[MetadataRecord]) -> list[str]:
    """Restore a broker from metadata records; returns what an operator is told."""
    return finish(restore_steps(broker, records))


def import_definitions(
    driver: BrokerDriver,
    definitions: dict[str, Any],
    vhost: str | None = "/",
    options: ImportOptions | None = None,
    dry_run: bool = False,
) -> Any:
    """Import definitions into one virtual host, or into all with None; return the answer."""
    return finish(import_steps(driver, json.dumps(definitions).encode(), vhost, options or ImportOptions(), dry_run))
