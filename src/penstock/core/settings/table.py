"""The table of settings by pattern, set by command and by the settings file.

One mechanism for all scopes. Each setting is taken from the most specific pattern that has it. For the same pattern a
command takes precedence over the file, and stays when the file is read again. Policies of a virtual host are stronger
than patterns, and weaker than the arguments of a queue (decision 67). An operator's override, which is set by command,
is the strongest (decision 102).

In a pattern `*` is one word, `#` any number of words, and dots separate words (Artemis' address settings). The most
specific pattern counts: an exact name, then patterns with `*`, the earlier concrete word first, then patterns with `#`,
the longer first (HierarchicalObjectRepository.java in Artemis; ties are broken here).
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.stream_settings import resolve_type
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.topic_trie import ANY, ONE, TopicTrie
from penstock.core.routing.topology import Topology
from penstock.core.settings.federated import Federated
from penstock.core.settings.limits import DEFAULT_RANK, Defaults, Limits, limits, number_or_none
from penstock.core.settings.overflow_changes import OverflowChanges
from penstock.core.settings.policies import NO_POLICIES, OPERATOR, RANK, Policy, PolicyPair, PolicyTable
from penstock.errors import PreconditionFailed, ResourceError
from penstock.settings.placed import place, placed
from penstock.settings.table import (
    BROKER,
    CREDITS,
    LIMITS_OF_QUEUES,
    OURS,
    PATTERN,
    POLICY,
    SCOPES,
    VHOST,
    SettingValue,
)

PARAMETERS_MAX: Final = 10_000
"""Most parameters of a broker."""
OCTETS_MAX: Final = 16 * 1024 * 1024
"""Most bytes of all parameters' names and values, in JSON."""
VALUE_OCTETS: Final = 24 * 1024
NAME_OCTETS: Final = 255


class Parameter:
    """A parameter of a component; a global parameter has neither component nor virtual host.

    Parameters of bridges have an effect (`management/bridges.py`); others are stored and exported again.
    """

    def __init__(self, component: str, vhost: str, name: str, value: object, run_as: str = "") -> None:
        self.component = component
        self.vhost = vhost
        self.name = name
        self.value = value
        """A JSON value; it may contain passwords, in URIs."""
        self.run_as = run_as
        """User with whose rights the bridge of the parameter runs; empty for a paused bridge."""
        self.revision: int = 0
        """Number of the change of the table that set the parameter; it is not stored."""

    def key(self) -> tuple[str, str, str]:
        """Return the identity of the parameter."""
        return self.component, self.vhost, self.name

    def title(self) -> str:
        """Return kind and name of the parameter, for sentences."""
        if not self.component:
            return f"global parameter '{self.name}'"
        return f"parameter '{self.name}' of component '{self.component}' in vhost '{self.vhost}'"

    def octets(self) -> int:
        """Return the bytes of the names and the value."""
        return len(self.component) + len(self.vhost) + len(self.name) + len(json.dumps(self.value))


CLUSTER_NAME: Final = "cluster_name"
"""Global parameter with the name that an operator gave the cluster."""


class ParameterTable:
    """All parameters of one broker."""

    def __init__(self) -> None:
        self._parameters: dict[tuple[str, str, str], Parameter] = {}
        self._octets: int = 0
        self.changes: int = 0
        """Number of all changes of the table."""

    def get(self, component: str, vhost: str, name: str) -> Parameter | None:
        """Return a parameter; None if there is none."""
        return self._parameters.get((component, vhost, name))

    def of(self, component: str | None = None, vhost: str | None = None) -> list[Parameter]:
        """Return parameters of one component or virtual host, or of all (None); without global parameters.

        They are in the order of virtual host, component and name.
        """
        keys = [
            (key[1], key[0], key[2])
            for key in self._parameters
            if key[0] and component in (None, key[0]) and vhost in (None, key[1])
        ]
        keys.sort()
        return [self._parameters[kind, host, name] for host, kind, name in keys]

    def every(self) -> Collection[Parameter]:
        """Return all parameters in no order, global ones included."""
        return self._parameters.values()

    def global_ones(self) -> list[Parameter]:
        """Return the global parameters, by name."""
        return [self._parameters[key] for key in sorted(self._parameters) if not key[0]]

    def cluster_name(self, otherwise: str) -> str:
        """Return the name that was set for the cluster, or `otherwise`."""
        given = self._parameters.get(("", "", CLUSTER_NAME))
        return given.value if given is not None and isinstance(given.value, str) else otherwise

    def check(self, parameter: Parameter) -> None:
        """Raise PreconditionFailed (406) for a parameter that is too large, ResourceError (506) at a limit."""
        for text in parameter.key():
            if len(text.encode(errors="replace")) > NAME_OCTETS:
                raise PreconditionFailed(f"{parameter.title()}: a name has at most {NAME_OCTETS} bytes")
        if not parameter.name:
            raise PreconditionFailed(f"{parameter.title()}: a name has 1 to {NAME_OCTETS} bytes")
        octets = parameter.octets()
        if octets > VALUE_OCTETS:
            raise PreconditionFailed(f"{parameter.title()} has {octets:,} bytes; the most is {VALUE_OCTETS:,}")
        before = self._parameters.get(parameter.key())
        if before is not None:
            octets -= before.octets()
        elif len(self._parameters) >= PARAMETERS_MAX:
            raise ResourceError(f"there are {PARAMETERS_MAX:,} parameters, the most that there may be; "
                                f"{parameter.title()} was not set")  # fmt: skip
        if self._octets + octets > OCTETS_MAX:
            raise ResourceError(f"all parameters have at most {OCTETS_MAX:,} bytes; {parameter.title()} was not set")

    def put(self, parameter: Parameter) -> Parameter | None:
        """Set a parameter; return the former parameter. Raises as `check` does."""
        self.check(parameter)
        before = self._parameters.get(parameter.key())
        self._octets += parameter.octets() - (0 if before is None else before.octets())
        self._parameters[parameter.key()] = parameter
        self.touch(parameter)
        return before

    def touch(self, parameter: Parameter) -> None:
        """Give a parameter a new revision."""
        self.changes += 1
        parameter.revision = self.changes

    def drop(self, component: str, vhost: str, name: str) -> Parameter | None:
        """Remove a parameter; return it, or None if it did not exist."""
        parameter = self._parameters.pop((component, vhost, name), None)
        if parameter is not None:
            self._octets -= parameter.octets()
            self.changes += 1
        return parameter

    def drop_vhost(self, vhost: str) -> list[Parameter]:
        """Remove the parameters of a virtual host that is deleted; return them."""
        return [parameter for parameter in self.of(None, vhost) if self.drop(*parameter.key()) is not None]


class Patterns:
    """A set of patterns."""

    def __init__(self, with_keys: bool = False) -> None:
        self._with_keys = with_keys
        """True if patterns are EXCHANGE/KEY-PATTERN; the first slash separates the two."""
        self._topics: TopicTrie[str] = TopicTrie()

    def add(self, pattern: str) -> None:
        """Add a pattern; no effect if it is present."""
        self._topics.add(self._words(pattern), pattern)

    def discard(self, pattern: str) -> None:
        """Remove a pattern."""
        self._topics.discard(self._words(pattern), pattern)

    def matching(self, name: str) -> list[str]:
        """Return the patterns that match, the most specific first."""
        names: list[str] = []
        self._topics.match(self._words(name), names)
        names.sort(key=self.specificity)
        return names

    def _words(self, name: str) -> list[str]:
        return name.replace("/", "./.", 1).split(".") if self._with_keys else name.split(".")

    def specificity(self, pattern: str) -> str:
        """Return the sort key of a pattern (below)."""
        return specificity(pattern.replace("/", "./.", 1) if self._with_keys else pattern)


class PlacedPatterns:
    """Patterns of one scope: those of all virtual hosts, and those of each."""

    def __init__(self, scope: str, with_keys: bool = False) -> None:
        self._scope = scope
        self._with_keys = with_keys
        self._of_all = Patterns(with_keys)
        self._of_vhosts: dict[str, Patterns] = {}

    def add(self, pattern: str) -> None:
        """Add a pattern in its stored form; does nothing if it is present."""
        vhost, name = placed(self._scope, pattern)
        if vhost is None:
            self._of_all.add(name)
            return
        patterns = self._of_vhosts.get(vhost)
        if patterns is None:
            patterns = Patterns(self._with_keys)
            self._of_vhosts[vhost] = patterns
        patterns.add(name)

    def discard(self, pattern: str) -> None:
        """Remove a pattern."""
        vhost, name = placed(self._scope, pattern)
        patterns = self._of_all if vhost is None else self._of_vhosts.get(vhost)
        if patterns is not None:
            patterns.discard(name)

    def matching(self, vhost: str | None, name: str) -> list[str]:
        """Return the stored forms of the patterns that match, the most specific first.

        Of equally specific ones that of the virtual host comes before that of all.
        """
        names = self._of_all.matching(name)
        of_vhost = None if vhost is None else self._of_vhosts.get(vhost)
        own = [] if of_vhost is None else of_vhost.matching(name)
        if not own:
            return [place(self._scope, None, each) for each in names]
        ranked = [(self._of_all.specificity(each), 0, place(self._scope, vhost, each)) for each in own]
        ranked += [(self._of_all.specificity(each), 1, place(self._scope, None, each)) for each in names]
        return [each for _, _, each in sorted(ranked)]


def specificity(pattern: str) -> str:
    """Return the sort key of a pattern among the patterns that match one name: the most specific one is the
    smallest.
    """
    words = pattern.split(".")
    places = "".join("2" if word == ANY else "1" if word == ONE else "0" for word in words)
    if ANY in words:
        return f"2{9999 - len(pattern)}{places}{pattern}"
    return f"{'1' if ONE in words else '0'}{places}"


class SettingsChange:
    """The effects of a change, resolved and not yet applied."""

    def __init__(self) -> None:
        self.queues: list[tuple[Queue, Settings]] = []
        self.vhosts: list[tuple[Topology, Limits]] = []
        self.addresses: list[tuple[Topology, Exchange, Limits]] = []
        self.exchanges: list[tuple[Topology, Exchange, Policy | None]] = []
        """Exchanges with the policies that apply to them."""
        self.broker: Limits | None = None
        """None if the broker's own settings have not changed."""
        self.overflow = OverflowChanges()
        """Queues whose overflow changes."""
        self.companions: int = 0
        """Number of queues that begin to retain."""
        self.scopes: list[str] = []
        """The scopes with changes; users, connections and producers are known to the broker's gates."""


ADDRESS: Final = "address"
COMMAND: Final = "command"
OVERRIDE: Final = "override"
OVERRIDE_RANK: Final = 1 << 20
"""Difference by which an override is stronger than another setting of its pattern: its rank is below that of an
argument.
"""
FILE: Final = "file"
PATTERNS_MAX: Final = 10_000
"""Most patterns of all scopes; each takes some 250 B, and 400 B a setting."""
SHARED_MAX: Final = 1_000
"""Most sets of settings that later queues may share; at the bound all are forgotten."""
FOR_QUEUES: Final = tuple(
    name for name in OURS if (name in SCOPES["vhost"] or name in SCOPES[BROKER]) and name not in LIMITS_OF_QUEUES
)
"""Settings of a virtual host, or of the broker, that are also the defaults of its queues."""


class SettingsEntry:
    """The settings of one pattern."""

    __slots__ = ("scope", "pattern", "vhost", "name", "command", "file")

    def __init__(self, scope: str, pattern: str) -> None:
        self.scope = scope
        self.pattern = pattern
        """Its stored form (settings/placed.py)."""
        self.vhost, self.name = placed(scope, pattern)
        self.command: dict[str, SettingValue] = {}
        self.file: dict[str, SettingValue] = {}

    def values(self, by: str) -> dict[str, SettingValue]:
        """Return the settings set by command, or by the file."""
        return self.command if by == COMMAND else self.file

    def commands(self, override: bool) -> dict[str, SettingValue]:
        """Return the settings set by command, with or without overrides."""
        return {name: value for name, value in self.command.items() if value.override == override}


class SettingsTable:
    """All settings of one broker except the arguments of its queues."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self.machine_bytes: int = 0
        """Memory of this host, or of this shard's share of the host, for settings in percent; 0 if unknown."""
        self.shards: int = 1
        """Shards that divide a memory limit in bytes."""
        self._entries: dict[str, dict[str, SettingsEntry]] = {}
        self._sorted: dict[str, list[str]] = {}
        """The patterns of each scope in order: sorting 10,000 at each query takes milliseconds."""
        self._patterns: dict[str, PlacedPatterns] = {}
        self._keyed = PlacedPatterns(ADDRESS, with_keys=True)
        """Address patterns with a routing key: EXCHANGE/KEY-PATTERN."""
        self._topics: int = 0
        """Number of these patterns."""
        self._common: dict[str, Settings] = {}
        """Settings shared by queues that no pattern matches, by virtual host, policies and arguments."""
        self.policies = PolicyTable()
        self.federated = Federated()
        self.parameters = ParameterTable()
        """Parameters, among them those of bridges."""
        for scope in SCOPES:
            self._entries[scope] = {}
            self._sorted[scope] = []
            self._patterns[scope] = PlacedPatterns(scope)

    def emptied(self) -> SettingsTable:
        """Return a table without settings and policies, with the same defaults and machine memory."""
        table = SettingsTable(self._defaults)
        table.machine_bytes = self.machine_bytes
        table.shards = self.shards
        return table

    # Changes (core/settings/changes.py makes them for a broker, all or nothing)

    def set(self, scope: str, pattern: str, by: str, values: dict[str, SettingValue]) -> dict[str, SettingValue]:
        """Replace the settings of a pattern by one source; returns the former settings.

        Raises ResourceError (506) at the limit.
        """
        entries = self._entries[scope]
        entry = entries.get(pattern)
        if entry is None:
            if not values:
                return {}
            if len(self) >= PATTERNS_MAX:
                raise ResourceError(
                    f"there are settings for {PATTERNS_MAX} patterns, the most that there may be; "
                    f"{scope} '{pattern}' was not set"
                )
            entry = SettingsEntry(scope, pattern)
            entries[pattern] = entry
            insort(self._sorted[scope], pattern)
            self._patterns[scope].add(pattern)
            if scope == ADDRESS and "/" in entry.name:
                self._keyed.add(pattern)
                self._topics += 1
        self._common.clear()
        before = entry.values(by)
        if by == COMMAND:
            entry.command = values
        else:
            entry.file = values
        if not entry.command and not entry.file:
            del entries[pattern]
            del self._sorted[scope][bisect_left(self._sorted[scope], pattern)]
            self._patterns[scope].discard(pattern)
            if scope == ADDRESS and "/" in entry.name:
                self._keyed.discard(pattern)
                self._topics -= 1
        return before

    def entries_of(self, scope: str, pattern: str, by: str) -> dict[str, SettingValue]:
        """Return the settings of exactly this pattern by one source."""
        entry = self._entries[scope].get(pattern)
        return {} if entry is None else entry.values(by)

    def of_file(self, scope: str, pattern: str) -> dict[str, SettingValue]:
        """Return the settings of the file for this pattern, in its virtual host and in all."""
        _, name = placed(scope, pattern)
        return {**self.entries_of(scope, place(scope, None, name), FILE), **self.entries_of(scope, pattern, FILE)}

    def entry(self, scope: str, pattern: str) -> SettingsEntry | None:
        """Return the entry of exactly this pattern; None if there is none."""
        return self._entries[scope].get(pattern)

    def entries(self) -> list[SettingsEntry]:
        """Return all entries, by scope and pattern."""
        entries: list[SettingsEntry] = []
        for scope in SCOPES:
            entries += [self._entries[scope][pattern] for pattern in self._sorted[scope]]
        return entries

    def has_commands(self) -> bool:
        """Return whether anything was set by command."""
        return any(entry.command for entry in self.entries())

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    # Resolution

    def resolve(self, scope: str, name: str, vhost: str | None = None) -> dict[str, SettingValue]:
        """Return the settings of a name, each by its most specific pattern; overrides come before others.

        Settings of queues and addresses are those of a virtual host. A topic (EXCHANGE/KEY) that matches a pattern with
        a routing key has the settings of its exchange, too.
        """
        values: dict[str, SettingValue] = {}
        entries = self._entries[scope]
        rank = RANK + 1
        keyed = self._keyed.matching(vhost, name) if scope == ADDRESS and "/" in name else []
        for pattern in [*keyed, *self._patterns[scope].matching(vhost, name.partition("/")[0] if keyed else name)]:
            entry = entries[pattern]
            for by in (COMMAND, FILE):
                for setting, value in entry.values(by).items():
                    if setting not in values or (value.override and not values[setting].override):
                        values[setting] = value.with_source(
                            PATTERN if scope != BROKER else BROKER,
                            entry.name,
                            OVERRIDE if value.override else by,
                            rank - OVERRIDE_RANK if value.override else rank,
                            entry.vhost,
                        )
                rank += 1
        return values

    def resolve_queue(
        self,
        vhost: str,
        queue: str,
        given: dict[str, SettingValue],
        policies: PolicyPair = NO_POLICIES,
    ) -> dict[str, SettingValue]:
        """Return all settings of a queue, each from its strongest source; `given` are the queue's arguments."""
        values = dict(given)
        policies.add_to(values)
        for setting, value in self.resolve("queue", queue, vhost).items():
            if setting not in values or value.override:
                values[setting] = value
        for setting, value in self.resolve("vhost", vhost).items():
            if setting in FOR_QUEUES and setting not in values:
                values[setting] = value.with_source(VHOST, value.pattern, value.by, DEFAULT_RANK)
        for setting, value in self.resolve(BROKER, "").items():
            if (setting in FOR_QUEUES or setting == "capacity-bytes") and setting not in values:
                values[setting] = value.with_source(BROKER, "", value.by, DEFAULT_RANK + 1)
        overflow = values.get("overflow")
        if overflow is not None:
            values["overflow"] = overflow.with_limits(self._source_of(overflow, given, policies))
        return values

    def _source_of(
        self, value: SettingValue, given: dict[str, SettingValue], policies: PolicyPair
    ) -> dict[str, SettingValue]:
        """Return all settings of the source of a queue's setting."""
        if value.origin == PATTERN:
            entry = self._entries["queue"][place("queue", value.vhost, value.pattern)]
            return entry.file if value.by == FILE else entry.commands(value.override)
        if value.origin == POLICY:
            policy = policies.operator if value.by == OPERATOR else policies.policy
            return {} if policy is None else policy.values
        return given

    def queue(self, vhost: str, queue: str, given: dict[str, SettingValue], kind: str) -> Settings:
        """Resolve a queue; `kind` is the `apply_to` of its type, or "" for a queue without policies.

        Raises PreconditionFailed (406) for sources that contradict each other.
        """
        policies = self.policies.pair(vhost, kind, queue)
        common = ""
        if not self._patterns["queue"].matching(vhost, queue):
            arguments = "\0".join([f"{value.alias}={value.raw!r}" for value in given.values()])
            common = f"{kind}\0{vhost}\0{policies.name() or ''}\0{policies.operator_name() or ''}\0{arguments}"
            shared = self._common.get(common)
            if shared is not None:
                return shared
        values = self.resolve_queue(vhost, queue, given, policies)
        settings = resolve_type(queue, values, self._defaults, kind)
        settings.given = given
        settings.policies = policies
        if common:
            if len(self._common) >= SHARED_MAX:
                self._common.clear()
            self._common[common] = settings
        return settings

    def forget_shared(self) -> None:
        """Forget the settings that queues share, after a change of policies."""
        self._common.clear()

    def limits(
        self, scope: str, name: str, given: dict[str, SettingValue] | None = None, vhost: str | None = None
    ) -> Limits:
        """Resolve the limits of an address, virtual host, user, connection, producer, or of the broker.

        `name` is the user's name for users, connections and producers; "" for the broker. `given` are settings of the
        object itself, which are stronger; `vhost` is that of an address. Raises PreconditionFailed (406) as `queue`
        does.
        """
        values = self.resolve(scope, name, vhost)
        if given:
            values |= given
        if scope == BROKER:
            for setting in ("capacity-bytes", *CREDITS):
                values.pop(setting, None)  # Defaults of queues, not limits of the broker itself.
        else:
            for setting, value in self.resolve(BROKER, "").items():
                if setting in ("stop-percent", "resume-percent") and setting not in values:
                    values[setting] = value.with_source(BROKER, "", value.by, DEFAULT_RANK)
        subject = "broker" if scope == BROKER else f"{scope} '{name}'"
        return limits(subject, values, self._defaults, self.machine_bytes, self.shards)

    def has_topics(self) -> bool:
        """Return whether any pattern of addresses has a routing key."""
        return self._topics > 0

    def topic_limits(self, vhost: str, exchange: str, key: str) -> Limits:
        """Resolve the limits of a routing key; no limits without a pattern EXCHANGE/KEY-PATTERN. Raises as `limits`."""
        name = f"{exchange}/{key}"
        return self.limits(ADDRESS, name, None, vhost) if self._keyed.matching(vhost, name) else Limits()

    def defaults(self) -> Defaults:
        """Return the broker's present default settings."""
        values = self.resolve(BROKER, "")
        defaults = replace(self._defaults)
        capacity = number_or_none(values.get("capacity-bytes"))
        if capacity is not None:
            defaults.capacity_bytes = capacity
        deadline = values.get("hold-deadline")
        if deadline is not None:
            defaults.hold_deadline_s = max(deadline.real, 0.0)
        return defaults
