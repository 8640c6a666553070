"""Work in steps, done at once: for tests that are not about the steps."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.broker import Broker
from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import Journal
from penstock.core.settings import changes
from penstock.core.settings.changes import EntryBefore
from penstock.core.settings.table import SettingsChange
from penstock.flow.work import WorkMeter, finish
from penstock.persistence.metadata_records import MetadataRecord
from penstock.persistence.restore import restore_steps
from penstock.persistence.settlements import StoreTransaction, encode_steps
from penstock.settings.table import SettingValue


def set_settings(broker: Broker, scope: str, pattern: str, words: dict[str, SettingValue]) -> SettingsChange:
    """Set these settings by command."""
    return finish(changes.set_settings_steps(broker, scope, pattern, words))


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
