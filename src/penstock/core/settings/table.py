"""The table of settings by pattern: what was said about names, by command and by the settings file.

One mechanism for all scopes. Setting by setting the most specific pattern that says something wins; of the same
pattern a command beats the file, and stays when the file is read again.
"""

from __future__ import annotations

from typing import Final

from penstock.core.settings.limits import Limits, limits
from penstock.core.settings.patterns import Patterns
from penstock.core.settings.queue_settings import Settings, resolve
from penstock.core.settings.thresholds import DEFAULT_RANK, Defaults, number_or_none
from penstock.errors import ResourceError
from penstock.setting_names import SCOPES, SettingValue
from penstock.setting_names.setting_value import BROKER, PATTERN, VHOST

COMMAND: Final = "command"
FILE: Final = "file"
PATTERNS_MAX: Final = 10_000
"""Patterns of all scopes; each holds some 250 B and 400 B a setting."""
FOR_QUEUES: Final = ("stop-percent", "resume-percent", "hold-deadline", "consumer-timeout")
"""What a virtual host's settings also mean for its queues, as their defaults."""


class SettingsEntry:
    """What was said for one pattern."""

    __slots__ = ("scope", "pattern", "command", "file")

    def __init__(self, scope: str, pattern: str) -> None:
        self.scope = scope
        self.pattern = pattern
        self.command: dict[str, SettingValue] = {}
        self.file: dict[str, SettingValue] = {}

    def values(self, by: str) -> dict[str, SettingValue]:
        """Return what was said by command, or by the file."""
        return self.command if by == COMMAND else self.file


class SettingsTable:
    """All settings of one broker but the arguments of its queues."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self.machine_bytes: int = 0
        """Memory of this machine, which shares of it are shares of; 0 where it is not known."""
        self._entries: dict[str, dict[str, SettingsEntry]] = {}
        self._patterns: dict[str, Patterns] = {}
        self._common: dict[str, Settings] = {}
        """What queues share of which nothing in particular is said, by virtual host."""
        for scope in SCOPES:
            self._entries[scope] = {}
            self._patterns[scope] = Patterns()

    # Changing (core/settings/changes.py does so for a broker, all or nothing)

    def set(self, scope: str, pattern: str, by: str, words: dict[str, SettingValue]) -> dict[str, SettingValue]:
        """Let these be all that is said for a pattern by somebody; returns what was said before.

        Raises ResourceError (506) at the bound.
        """
        entries = self._entries[scope]
        entry = entries.get(pattern)
        if entry is None:
            if not words:
                return {}
            if len(self) >= PATTERNS_MAX:
                raise ResourceError(
                    f"there are settings for {PATTERNS_MAX} patterns, the most that there may be; "
                    f"{scope} '{pattern}' was not set"
                )
            entry = SettingsEntry(scope, pattern)
            entries[pattern] = entry
            self._patterns[scope].add(pattern)
        self._common.clear()
        before = entry.values(by)
        if by == COMMAND:
            entry.command = words
        else:
            entry.file = words
        if not entry.command and not entry.file:
            del entries[pattern]
            self._patterns[scope].discard(pattern)
        return before

    def entries_of(self, scope: str, pattern: str, by: str) -> dict[str, SettingValue]:
        """Return what was said for exactly this pattern by somebody."""
        entry = self._entries[scope].get(pattern)
        return {} if entry is None else entry.values(by)

    def entry(self, scope: str, pattern: str) -> SettingsEntry | None:
        """Return what was said for exactly this pattern; None where nothing was."""
        return self._entries[scope].get(pattern)

    def entries(self) -> list[SettingsEntry]:
        """Return all entries, by scope and pattern."""
        found: list[SettingsEntry] = []
        for scope in SCOPES:
            found += [self._entries[scope][pattern] for pattern in sorted(self._entries[scope])]
        return found

    def has_commands(self) -> bool:
        """Return whether anything was set by command."""
        for entry in self.entries():
            if entry.command:
                return True
        return False

    def __len__(self) -> int:
        count = 0
        for entries in self._entries.values():
            count += len(entries)
        return count

    # Resolving

    def resolve(self, scope: str, name: str) -> dict[str, SettingValue]:
        """Return what is said about a name, each setting by its most specific pattern."""
        found: dict[str, SettingValue] = {}
        entries = self._entries[scope]
        rank = 1
        for pattern in self._patterns[scope].matching(name):
            entry = entries[pattern]
            for by in (COMMAND, FILE):
                for setting, word in entry.values(by).items():
                    if setting not in found:
                        found[setting] = word.with_source(PATTERN if scope != BROKER else BROKER, pattern, by, rank)
                rank += 1
        return found

    def resolve_queue(self, vhost: str, queue: str, given: dict[str, SettingValue]) -> dict[str, SettingValue]:
        """Return all that is said about a queue, the strongest word for each setting; `given` are its arguments."""
        found = dict(given)
        for setting, word in self.resolve("queue", queue).items():
            if setting not in found:
                found[setting] = word
        for setting, word in self.resolve("vhost", vhost).items():
            if setting in FOR_QUEUES and setting not in found:
                found[setting] = word.with_source(VHOST, word.pattern, word.by, DEFAULT_RANK)
        for setting, word in self.resolve(BROKER, "").items():
            if (setting in FOR_QUEUES or setting == "capacity-bytes") and setting not in found:
                found[setting] = word.with_source(BROKER, "", word.by, DEFAULT_RANK + 1)
        return found

    def queue(self, vhost: str, queue: str, given: dict[str, SettingValue]) -> Settings:
        """Resolve a queue. Raises PreconditionFailed (406) for what two sources say and cannot both be meant."""
        if not given and not self.resolve("queue", queue):
            common = self._common.get(vhost)
            if common is None:
                common = resolve(queue, self.resolve_queue(vhost, queue, given), self._defaults)
                self._common[vhost] = common
            return common
        found = resolve(queue, self.resolve_queue(vhost, queue, given), self._defaults)
        found.given = given
        return found

    def limits(self, scope: str, name: str) -> Limits:
        """Resolve a thing of another scope by its name: an address, a virtual host; a user's name for users,
        connections and producers; "" for the broker. Raises PreconditionFailed (406) as `queue` does."""
        words = self.resolve(scope, name)
        if scope == BROKER:
            words.pop("capacity-bytes", None)  # It is the default of queues, and no limit of the broker's own.
        else:
            for setting, word in self.resolve(BROKER, "").items():
                if setting in ("stop-percent", "resume-percent") and setting not in words:
                    words[setting] = word.with_source(BROKER, "", word.by, DEFAULT_RANK)
        thing = "broker" if scope == BROKER else f"{scope} '{name}'"
        return limits(thing, words, self._defaults, self.machine_bytes)

    def defaults(self) -> Defaults:
        """Return the broker's own values as they are now."""
        words = self.resolve(BROKER, "")
        found = Defaults(
            self._defaults.capacity_bytes,
            self._defaults.stop_percent,
            self._defaults.resume_percent,
            self._defaults.hold_deadline_s,
        )
        capacity = number_or_none(words.get("capacity-bytes"))
        if capacity is not None:
            found.capacity_bytes = capacity
        deadline = words.get("hold-deadline")
        if deadline is not None:
            found.hold_deadline_s = max(deadline.real, 0.0)
        return found
