"""Settings of a restored queue: as before, or whatever part of them is still valid."""

from __future__ import annotations

from penstock.core.queue.queue_settings import Settings, resolve
from penstock.core.settings.policies import CLASSIC, QUORUM
from penstock.core.settings.table import SettingsTable
from penstock.errors import BrokerError
from penstock.settings.features import PLAIN, Features, read_features
from penstock.settings.read import read_arguments
from penstock.settings.value import SettingValue
from penstock.texts import joined


def settings_of(table: SettingsTable, vhost: str, queue: str, arguments: dict[str, object]) -> tuple[Settings, str]:
    """Return the settings of a queue, and a sentence if they differ from before, else "".

    They differ if a pattern or a new version has made the combination invalid. Then only the queue's own arguments
    apply, and if they are invalid by themselves, the broker's values.
    """
    given: dict[str, SettingValue] = {}
    try:
        given = read_arguments(queue, arguments)
        kind = QUORUM if arguments.get("x-queue-type") == "quorum" else CLASSIC
        return table.queue(vhost, queue, given, kind), ""
    except BrokerError as error:
        problem = str(error)
    defaults = table.defaults()
    try:
        settings = resolve(queue, given, defaults)
    except BrokerError:
        given = {}
        settings = resolve(queue, given, defaults)
    settings.given = given
    how = "its own arguments alone" if given else "the broker's own values"
    return settings, f"{problem}; queue '{queue}' came back with {how}"


def features_of(queue: str, arguments: dict[str, object]) -> tuple[Features, str]:
    """Return the features of a queue from its arguments, and a sentence as `settings_of` does."""
    try:
        return read_features(queue, arguments), ""
    except BrokerError as error:
        return PLAIN, joined(str(error), f"queue '{queue}' came back as an ordinary one")
