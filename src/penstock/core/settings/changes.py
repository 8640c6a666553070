"""Changes of settings and policies at run time: all or nothing, and in effect at once.

All effects on existing objects are resolved first. If any effect is invalid, the table is restored and nothing has
changed. Then the broker applies all effects (`Broker.apply_settings`).

Both run in steps, because there may be 200,000 queues. Declarations between two steps use the new settings already.
Only one change may be in progress at a time. Queues and exchanges that a changed policy matches, before or after, are
resolved again, unless another policy has precedence for them. Other objects are only checked for a match.
"""

from __future__ import annotations

from typing import Final

from penstock.content.properties import answers_control
from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.queue.pager import check, without_disk
from penstock.core.queue.queue import Queue
from penstock.core.queue.retention import bar_of, without_store
from penstock.core.routing.topic_trie import topic_matches
from penstock.core.settings.policies import EXCHANGES, Policy
from penstock.core.settings.table import COMMAND, FILE, PlacedPatterns, SettingsChange, SettingsEntry, SettingsTable
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, NotFound
from penstock.flow.work import Steps
from penstock.settings.placed import in_vhost, place, placed
from penstock.settings.table import BROKER, RETENTIONS, SCOPES, SettingValue
from penstock.texts import nearest

COPY_WORK: Final = 10
"""Units of work to copy the settings of a pattern, or a policy."""
COMPARE_WORK: Final = 10
"""Units of work to compare the old and new settings of a pattern."""
LOOK_WORK: Final = 2
RESOLVE_WORK: Final = 40
"""Units of work to match a pattern with an object, and to resolve the object's settings."""


MATCHED_A_STEP: Final = 8
"""Number of changed policies above which all queues of the virtual host are resolved, not only the matching queues."""

EntryBefore = tuple[str, str, dict[str, SettingValue]]
"""Scope, pattern and all its settings after the change."""


def set_settings_steps(
    broker: Broker, scope: str, pattern: str, values: dict[str, SettingValue]
) -> Steps[SettingsChange]:
    """Set these settings by command, in addition to settings set by command for the same pattern."""
    return (
        yield from set_all_steps(broker, [(scope, pattern, broker.table.entries_of(scope, pattern, COMMAND) | values)])
    )


def set_all_steps(broker: Broker, entries: list[EntryBefore]) -> Steps[SettingsChange]:
    """Replace all settings that were set by command for these patterns. Raises as `set_settings_steps` does."""
    return (yield from _change(broker, _of_patterns(entries, COMMAND)))


def copied_steps(broker: Broker) -> Steps[SettingsTable]:
    """Return a copy of the broker's table without parameters, to try changes in."""
    table = broker.table.emptied()
    for entry in broker.table.entries():
        for by in (COMMAND, FILE):
            table.set(entry.scope, entry.pattern, by, entry.values(by))
        if broker.work.spend(COPY_WORK):
            yield
    for policy in broker.table.policies.all():
        table.policies.put(policy)
        if broker.work.spend(COPY_WORK):
            yield
    return table


def try_all_steps(broker: Broker, table: SettingsTable, entries: list[EntryBefore]) -> Steps[SettingsChange]:
    """Replace settings of these patterns in a copy of the broker's table. Raises as `set_all_steps` does."""
    changes = _of_patterns(entries, COMMAND)
    for change in changes:
        change.admit(broker.journal)
    return (yield from _try(broker, table, changes))


def remove_steps(broker: Broker, scope: str, pattern: str, names: list[str]) -> Steps[SettingsChange]:
    """Remove settings that were set by command for a pattern: the named settings, or all if no names are given.

    Raises NotFound (404) for a setting that was not set, and PreconditionFailed (406) if the remaining settings are
    invalid.
    """
    entry = broker.table.entries_of(scope, pattern, COMMAND)
    subject = f"{scope} '{placed(scope, pattern)[1]}'" if pattern else scope
    for name in names or ([] if entry else [""]):
        if name not in entry:
            raise NotFound(_not_set_message(broker, scope, pattern, subject, name))
    remaining = {name: value for name, value in entry.items() if names and name not in names}
    return (yield from set_all_steps(broker, [(scope, pattern, remaining)]))


def replace_file_steps(broker: Broker, entries: list[EntryBefore]) -> Steps[SettingsChange]:
    """Replace all settings of the settings file; settings set by command stay, and take precedence.

    Raises PreconditionFailed (406) or ResourceError (506) as `set_settings_steps` does; then the earlier settings of
    the file stay in effect.
    """
    wanted = {(scope, pattern): values for scope, pattern, values in entries}
    changed: list[EntryBefore] = []
    moved: list[EntryBefore] = []
    for entry in broker.table.entries():
        key = (entry.scope, entry.pattern)
        if entry.file and key not in wanted:
            changed.append((entry.scope, entry.pattern, {}))
    for (scope, pattern), values in wanted.items():
        if broker.work.spend(COMPARE_WORK):
            yield
        before = broker.table.entries_of(scope, pattern, FILE)
        same = _values(before) == _values(values)
        (moved if same else changed).append((scope, pattern, values))
    plan = yield from _change(broker, _of_patterns(changed, FILE))
    for scope, pattern, values in moved:
        if broker.work.spend(COMPARE_WORK):
            yield
        broker.table.set(scope, pattern, FILE, values)  # The pattern may be on another line of the file now.
    return plan


def matching_steps(broker: Broker, scope: str, pattern: str) -> Steps[list[str]]:
    """Return the names that a pattern matches now. Users, connections and producers are matched by the names of
    users.

    Names that a pattern of all virtual hosts matches begin with their virtual host: shop/orders.
    """
    if scope == BROKER:
        return [BROKER]
    host, pattern = placed(scope, pattern)
    hosts: list[VirtualHost | None] = [None]
    if scope in ("queue", "address", "vhost"):
        hosts = [vhost for vhost in broker.vhosts.values() if host in (None, vhost.name)]
    names: list[str] = []
    for vhost in hosts:
        there = broker.access.names()
        if vhost is not None and scope == "queue":
            there = [name for name in vhost.queues if not answers_control(name)]
        elif vhost is not None:
            there = list(vhost.exchanges) if scope == "address" else [vhost.name]
        for name in there:
            if broker.work.spend(LOOK_WORK):
                yield
            if matches(pattern, name) or (scope == "address" and matches(pattern.partition("/")[0], name)):
                everywhere = vhost is not None and scope != "vhost" and host is None
                names.append(in_vhost(vhost.name, name) if vhost is not None and everywhere else name)
    return names


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name."""
    return topic_matches(pattern.split("."), name.split("."))


class PatternChange:
    """All settings of a pattern by one source."""

    def __init__(self, scope: str, pattern: str, values: dict[str, SettingValue], by: str) -> None:
        self.scope = scope
        self.pattern = pattern
        self.values = values
        self.by = by
        self.before: dict[str, SettingValue] = {}

    def admit(self, journal: Journal | None) -> None:
        """Raise PreconditionFailed (406) or StoreError for a change that cannot be stored, or not at present."""
        if self.by == FILE:
            return  # Settings with which no queue can be declared are refused at a declaration.
        value = self.values.get("overflow")
        if journal is None and self.scope == "queue" and value is not None and value.text == "page":
            raise without_disk(placed(self.scope, self.pattern)[1])
        for name in RETENTIONS:
            if journal is None and name in self.values and not self.values[name].none:
                subject = f"queue '{placed(self.scope, self.pattern)[1]}'"
                raise without_store(subject, self.values[name].describe())
        if journal is not None and self.values:
            journal.check_writable()

    def put(self, table: SettingsTable) -> None:
        """Put the settings into a table. Raises ResourceError (506) at a limit."""
        self.before = table.set(self.scope, self.pattern, self.by, self.values)

    def undo(self, table: SettingsTable) -> None:
        """Restore the values from before the change."""
        table.set(self.scope, self.pattern, self.by, self.before)

    def record(self, broker: Broker, journal: Journal) -> None:
        """Record the settings in the journal."""
        if self.by == FILE:
            return  # The settings file is read again after a restart.
        entry = broker.table.entry(self.scope, self.pattern)
        if entry is not None and self.values:
            journal.change(entry)
        else:
            journal.forget(SettingsEntry(self.scope, self.pattern))


class PolicyChange:
    """A changed policy: the new policy, or None to remove the policy; afterwards also the former policy."""

    def __init__(self, named: Policy, policy: Policy | None) -> None:
        self.named = named
        """A policy of the changed name: the new policy, or the present one."""
        self.policy = policy
        self.before: Policy | None = None

    def admit(self, journal: Journal | None) -> None:
        """See `PatternChange.admit`."""
        if journal is not None and self.policy is not None:
            journal.check_writable()

    def put(self, table: SettingsTable) -> None:
        """See `PatternChange.put`."""
        self.before = self._replace(table, self.policy)

    def undo(self, table: SettingsTable) -> None:
        """See `PatternChange.undo`."""
        self._replace(table, self.before)

    def _replace(self, table: SettingsTable, policy: Policy | None) -> Policy | None:
        table.forget_shared()
        if policy is None:
            return table.policies.drop(self.named.vhost, self.named.name, self.named.operator)
        return table.policies.put(policy)

    def record(self, broker: Broker, journal: Journal) -> None:
        """See `PatternChange.record`."""
        if self.policy is not None:
            journal.change(self.policy)
        elif self.before is not None:
            journal.forget(self.before)


Change = PatternChange | PolicyChange


def _of_patterns(entries: list[EntryBefore], by: str) -> list[Change]:
    """Return changes of patterns, removals first, because the number of patterns has a limit."""
    return [PatternChange(*entry, by) for entry in sorted(entries, key=lambda entry: bool(entry[2]))]


def _change(broker: Broker, changes: list[Change]) -> Steps[SettingsChange]:
    """Make changes, all or none; return the affected objects."""
    for change in changes:
        change.admit(broker.journal)
    try:
        plan = yield from _try(broker, broker.table, changes)
    except BrokerError:
        # For objects declared since the change began. Queues that are valid only with the change are left unchanged.
        plan = yield from _resolve(broker, broker.table, changes, True)
        plan.broker = None
        plan.vhosts = []
        yield from broker.apply_settings(plan)
        raise
    yield from broker.apply_settings(plan)
    if broker.journal is not None:
        for change in changes:
            change.record(broker, broker.journal)
    return plan


def _try(broker: Broker, table: SettingsTable, changes: list[Change]) -> Steps[SettingsChange]:
    """Put changes into a table, all or none; return the affected objects."""
    done: list[Change] = []
    try:
        for change in changes:
            change.put(table)
            done.append(change)
        return (yield from _resolve(broker, table, changes, False))
    except BrokerError:
        for change in reversed(done):
            change.undo(table)
        raise


def _resolve(broker: Broker, table: SettingsTable, changes: list[Change], passing_over: bool) -> Steps[SettingsChange]:
    """Resolve the settings of all affected objects by a table; `passing_over` queues that cannot be resolved."""
    plan = SettingsChange()
    patterns: dict[str, PlacedPatterns] = {scope: PlacedPatterns(scope) for scope in SCOPES}
    policies: dict[str, list[Policy]] = {}
    for change in changes:
        if isinstance(change, PatternChange):
            plan.scopes.append(change.scope)
            patterns[change.scope].add(change.pattern)
            if change.scope == "address":
                vhost, name = placed("address", change.pattern)
                patterns[change.scope].add(place("address", vhost, name.partition("/")[0]))
        else:
            touched = policies.setdefault(change.named.vhost, [])
            touched += [policy for policy in (change.before, change.policy) if policy is not None]
    plan.scopes = sorted({*plan.scopes})
    if BROKER in plan.scopes:
        plan.broker = table.limits(BROKER, "")
    for host in list(broker.vhosts.values()):
        if plan.scopes or host.name in policies:
            yield from _resolve_vhost(broker, table, host, patterns, policies.get(host.name, []), plan, passing_over)
    return plan


def _resolve_vhost(
    broker: Broker,
    table: SettingsTable,
    vhost: VirtualHost,
    patterns: dict[str, PlacedPatterns],
    policies: list[Policy],
    plan: SettingsChange,
    passing_over: bool,
) -> Steps[None]:
    everywhere = BROKER in plan.scopes
    its_own = everywhere or bool(patterns["vhost"].matching(None, vhost.name))
    many = len(policies) >= MATCHED_A_STEP
    look_work = LOOK_WORK * max(1, min(len(policies), MATCHED_A_STEP))
    if its_own:
        plan.vhosts.append((vhost, table.limits("vhost", vhost.name)))
    for queue in list(vhost.queues.values()):
        if broker.work.spend(look_work):
            yield
        kind = queue.features.type.apply_to
        matched = its_own or many or bool(patterns["queue"].matching(vhost.name, queue.name))
        if not queue.deleted and (matched or any(concerns(policy, queue, kind) for policy in policies)):
            broker.work.done += RESOLVE_WORK + table.policies.work(vhost.name, queue.name)
            resolve_queue(broker, table, queue, plan, passing_over)
    for exchange in list(vhost.exchanges.values()):
        if broker.work.spend(look_work):
            yield
        if everywhere or patterns["address"].matching(vhost.name, exchange.name):
            plan.addresses.append((vhost, exchange, table.limits("address", exchange.name, None, vhost.name)))
        if many or any(policy.covers(EXCHANGES, exchange.name) for policy in policies):
            broker.work.done += RESOLVE_WORK + table.policies.work(vhost.name, exchange.name)
            policy = table.policies.best(vhost.name, EXCHANGES, exchange.name, False)
            plan.exchanges.append((vhost, exchange, policy))


def resolve_queue(broker: Broker, table: SettingsTable, queue: Queue, plan: SettingsChange, passing_over: bool) -> None:
    """Add a queue with its new settings to a plan; with `passing_over` a queue with contradictory settings is left out.

    Raises PreconditionFailed (406) otherwise.
    """
    try:
        settings = table.queue(queue.vhost, queue.name, queue.settings.given, queue.features.type.apply_to)
        check(queue.name, settings, queue.features, broker.journal)
        if settings.retains and queue.retention is None:
            broker.vhosts[queue.vhost].check_retention(queue.name, settings, bar_of(queue), plan.companions)
            plan.companions += 1
        plan.queues.append((queue, settings))
        if not answers_control(queue.name):
            plan.overflow.add(queue.name, queue.settings, settings)
    except BrokerError:
        if not passing_over:
            raise


def _values(values: dict[str, SettingValue]) -> dict[str, tuple[str, object]]:
    return {name: (value.alias, value.value()) for name, value in values.items()}


def _not_set_message(broker: Broker, scope: str, pattern: str, subject: str, name: str) -> str:
    what = f"{name} of {subject}" if name else subject
    in_file = broker.table.of_file(scope, pattern)
    if in_file if not name else name in in_file:
        return (
            f"{what} is not set by command but by the settings file; change it there and reload, or set it by command"
        )
    if name:
        return f"{what} is not set; nothing to unset"
    vhost, wanted = placed(scope, pattern)
    entries = [entry for entry in broker.table.entries() if entry.scope == scope and entry.command]
    known = [entry.name for entry in entries if entry.vhost == vhost]
    near = nearest(wanted, known)
    return f"nothing is set for {subject}; nothing to unset" + (f"; did you mean '{near}'?" if near else "")


def setting(policy: Policy) -> PolicyChange:
    """Return the change that sets a policy."""
    return PolicyChange(policy, policy)


def clear_policy_steps(broker: Broker, vhost: str, name: str, operator: bool) -> Steps[SettingsChange]:
    """Remove a policy. Raises NotFound (404), PreconditionFailed (406) if a queue is invalid without the policy."""
    policy = broker.table.policies.get(vhost, name, operator)
    if policy is None:
        raise NotFound(f"no {'operator policy' if operator else 'policy'} '{name}' of vhost '{vhost}'")
    return (yield from change_policies_steps(broker, [PolicyChange(policy, None)]))


def change_policies_steps(broker: Broker, changes: list[PolicyChange]) -> Steps[SettingsChange]:
    """Set and remove policies, all or none; return the affected queues and exchanges.

    Raises PreconditionFailed (406) if a queue's settings are contradictory with them, ResourceError (506) at a limit.
    """
    return (yield from _change(broker, [*changes]))


def try_policies_steps(broker: Broker, table: SettingsTable, changes: list[PolicyChange]) -> Steps[SettingsChange]:
    """Set policies in a copy of the broker's table. Raises as `change_policies_steps` does."""
    return (yield from _try(broker, table, [*changes]))


def drop_placed(broker: Broker, vhost: str) -> None:
    """Remove the settings by command of patterns of a virtual host that is deleted."""
    for entry in broker.table.entries():
        if entry.vhost == vhost and entry.command:
            broker.table.set(entry.scope, entry.pattern, COMMAND, {})
            if broker.journal is not None:
                broker.journal.forget(SettingsEntry(entry.scope, entry.pattern))


def drop_policies(broker: Broker, vhost: str) -> None:
    """Remove all policies of a virtual host that is deleted."""
    for operator in (False, True):
        for policy in broker.table.policies.of(vhost, operator):
            broker.table.policies.drop(vhost, policy.name, operator)
            if broker.journal is not None:
                broker.journal.forget(policy)
    broker.table.forget_shared()


def concerns(policy: Policy, queue: Queue, kind: str) -> bool:
    """Return whether a changed policy may apply to a queue: it matches, and no unchanged policy has precedence."""
    pair = queue.settings.policies
    present = pair.operator if policy.operator else pair.policy
    if present is not None and present is not policy and present.name != policy.name and present.precedes(policy):
        return False
    return policy.covers(kind, queue.name)
