"""Changes of settings and policies at run time: all or nothing, and in effect at once.

All effects on existing objects are resolved first. If any of them is invalid, the table is restored and nothing has
changed. Then the broker applies all of them (`Broker.apply_settings`).

Both are done in steps, for there may be 200,000 queues. Declarations between two steps use the new settings already.
Only one change may be in progress at a time. Queues and exchanges that a changed policy matches, before or after, are
resolved again, unless another policy has precedence for them. Others are only looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.content.names import answers_control
from penstock.core.queue.paging_setup import check, without_disk
from penstock.core.routing.topic_trie import topic_matches
from penstock.core.settings.policies import EXCHANGES, Policy, kind_of
from penstock.core.settings.table import COMMAND, FILE, Patterns, SettingsChange, SettingsEntry, SettingsTable
from penstock.errors import BrokerError, NotFound
from penstock.flow.work import Steps, finish
from penstock.settings.table import SCOPES
from penstock.settings.value import BROKER, SettingValue
from penstock.texts import nearest

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.queue.queue import Queue
    from penstock.core.vhost import VirtualHost

COPY_WORK: Final = 10
"""Units of work to copy the settings of a pattern, or a policy."""
COMPARE_WORK: Final = 10
"""Units of work to compare the old and new settings of a pattern."""
LOOK_WORK: Final = 2
RESOLVE_WORK: Final = 40
"""Units of work to match a pattern with an object, and to resolve the object's settings."""


EntryBefore = tuple[str, str, dict[str, SettingValue]]
"""Scope, pattern and all its settings after the change."""


def set_settings(broker: Broker, scope: str, pattern: str, words: dict[str, SettingValue]) -> SettingsChange:
    """Do `set_settings_steps` at once."""
    return finish(set_settings_steps(broker, scope, pattern, words))


def set_settings_steps(
    broker: Broker, scope: str, pattern: str, words: dict[str, SettingValue]
) -> Steps[SettingsChange]:
    """Set these settings by command, in addition to those set by command for the same pattern.

    Raises PreconditionFailed (406) for contradictory settings, ResourceError (506) at the limit.
    """
    entry = dict(broker.table.entries_of(scope, pattern, COMMAND))
    entry.update(words)
    return (yield from _change(broker, COMMAND, [(scope, pattern, entry)]))


def set_all(broker: Broker, entries: list[EntryBefore]) -> SettingsChange:
    """Do `set_all_steps` at once."""
    return finish(set_all_steps(broker, entries))


def set_all_steps(broker: Broker, entries: list[EntryBefore]) -> Steps[SettingsChange]:
    """Replace all settings that were set by command for these patterns. Raises as `set_settings_steps` does."""
    return (yield from _change(broker, COMMAND, entries))


def copied_steps(broker: Broker) -> Steps[SettingsTable]:
    """Return a copy of the broker's table without parameters, to try changes in."""
    found = broker.table.emptied()
    for entry in broker.table.entries():
        for by in (COMMAND, FILE):
            found.set(entry.scope, entry.pattern, by, entry.values(by))
        broker.work.done += COPY_WORK
        if broker.work.used_up():
            yield
    for policy in broker.table.policies.all():
        found.policies.put(policy)
        broker.work.done += COPY_WORK
        if broker.work.used_up():
            yield
    return found


def try_all_steps(broker: Broker, table: SettingsTable, entries: list[EntryBefore]) -> Steps[None]:
    """Replace settings of these patterns in a copy of the broker's table. Raises as `set_all_steps` does."""
    _admit(broker, entries)
    before = [(scope, pattern, table.set(scope, pattern, COMMAND, words)) for scope, pattern, words in entries]
    try:
        yield from _prepare(broker, table, [(scope, pattern) for scope, pattern, _ in entries])
    except BrokerError:
        for scope, pattern, words in reversed(before):
            table.set(scope, pattern, COMMAND, words)
        raise


def remove(broker: Broker, scope: str, pattern: str, names: list[str]) -> SettingsChange:
    """Do `remove_steps` at once."""
    return finish(remove_steps(broker, scope, pattern, names))


def remove_steps(broker: Broker, scope: str, pattern: str, names: list[str]) -> Steps[SettingsChange]:
    """Remove settings that were set by command for a pattern: those named, or all if none is named.

    Raises NotFound (404) for a setting that was not set, and PreconditionFailed (406) if the others are invalid without
    it.
    """
    entry = broker.table.entries_of(scope, pattern, COMMAND)
    subject = f"{scope} '{pattern}'" if pattern else scope
    for name in names or ([] if entry else [""]):
        if name not in entry:
            raise NotFound(_not_set_message(broker, scope, pattern, subject, name))
    kept = {name: word for name, word in entry.items() if names and name not in names}
    return (yield from _change(broker, COMMAND, [(scope, pattern, kept)]))


def replace_file(broker: Broker, entries: list[EntryBefore]) -> SettingsChange:
    """Do `replace_file_steps` at once."""
    return finish(replace_file_steps(broker, entries))


def replace_file_steps(broker: Broker, entries: list[EntryBefore]) -> Steps[SettingsChange]:
    """Replace all settings of the settings file; those set by command stay, and take precedence.

    Raises PreconditionFailed (406) or ResourceError (506) as `set_settings_steps` does; then the earlier settings of
    the file stay in effect.
    """
    wanted = {(scope, pattern): words for scope, pattern, words in entries}
    changed: list[EntryBefore] = []
    moved: list[EntryBefore] = []
    for entry in broker.table.entries():
        key = (entry.scope, entry.pattern)
        if entry.file and key not in wanted:
            changed.append((entry.scope, entry.pattern, {}))
    for (scope, pattern), words in wanted.items():
        broker.work.done += COMPARE_WORK
        if broker.work.used_up():
            yield
        before = broker.table.entries_of(scope, pattern, FILE)
        same = _values(before) == _values(words)
        (moved if same else changed).append((scope, pattern, words))
    plan = yield from _change(broker, FILE, changed)
    for scope, pattern, words in moved:
        broker.work.done += COMPARE_WORK
        if broker.work.used_up():
            yield
        broker.table.set(scope, pattern, FILE, words)  # It may be on another line of the file now.
    return plan


def matching_steps(broker: Broker, scope: str, pattern: str) -> Steps[list[str]]:
    """Return the names that a pattern matches now. Users, connections and producers go by the names of users."""
    if scope == BROKER:
        return [BROKER]
    hosts: list[VirtualHost | None] = [None]
    if scope in ("queue", "address", "vhost"):
        hosts = [*broker.vhosts.values()]
    names: list[str] = []
    for vhost in hosts:
        there = broker.access.names()
        if vhost is not None and scope == "queue":
            there = [name for name in vhost.queues if not answers_control(name)]
        elif vhost is not None:
            there = list(vhost.exchanges) if scope == "address" else [vhost.name]
        for name in there:
            broker.work.done += LOOK_WORK
            if broker.work.used_up():
                yield
            if matches(pattern, name) or (scope == "address" and matches(pattern.partition("/")[0], name)):
                names.append(name)
    return names


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name."""
    return topic_matches(pattern.split("."), name.split("."))


def _change(broker: Broker, by: str, changes: list[EntryBefore]) -> Steps[SettingsChange]:
    table = broker.table
    if by == COMMAND:
        _admit(broker, changes)
    undo: list[EntryBefore] = []
    try:
        for scope, pattern, words in sorted(changes, key=_emptied_first):
            before = table.set(scope, pattern, by, words)
            undo.append((scope, pattern, before))
        plan = yield from _prepare(broker, table, [(scope, pattern) for scope, pattern, _ in changes])
    except BrokerError:
        for scope, pattern, before in reversed(undo):
            table.set(scope, pattern, by, before)
        yield from _take_back(broker, [(scope, pattern) for scope, pattern, _ in changes])
        raise
    yield from broker.apply_settings(plan)
    if by == COMMAND:
        _persist(broker, changes)
    return plan


def _admit(broker: Broker, changes: list[EntryBefore]) -> None:
    """Refuse settings by command that cannot be stored, or not now."""
    if broker.journal is None:
        _refuse_pages(changes)
    elif any(words for _, _, words in changes):
        broker.journal.check_writable()


def _refuse_pages(changes: list[EntryBefore]) -> None:
    """Refuse paging settings that no queue could be declared with. Those of the file are refused at a declaration."""
    for scope, pattern, words in changes:
        word = words.get("overflow")
        if scope == "queue" and word is not None and word.text == "page":
            raise without_disk(pattern)


def _persist(broker: Broker, changes: list[EntryBefore]) -> None:
    """Record the settings set by command in the journal; the file is read again after a restart."""
    journal = broker.journal
    if journal is None:
        return
    for scope, pattern, words in changes:
        entry = broker.table.entry(scope, pattern)
        if entry is not None and words:
            journal.change(entry)
        else:
            journal.forget(SettingsEntry(scope, pattern))


def _emptied_first(entry: EntryBefore) -> bool:
    return bool(entry[2])


def _take_back(broker: Broker, touched: list[tuple[str, str]]) -> Steps[None]:
    """Undo a refused change for everything declared since it began.

    Queues whose own arguments are valid only with the change stay as they are.
    """
    plan = yield from _prepare(broker, broker.table, touched, passing_over=True)
    plan.broker = None
    plan.vhosts = []
    yield from broker.apply_settings(plan)


def _prepare(
    broker: Broker, table: SettingsTable, touched: list[tuple[str, str]], passing_over: bool = False
) -> Steps[SettingsChange]:
    """Resolve the settings of all objects concerned by a table; `passing_over` queues that cannot be resolved."""
    plan = SettingsChange()
    plan.scopes = sorted({scope for scope, _ in touched})
    everything = BROKER in plan.scopes
    patterns: dict[str, Patterns] = {scope: Patterns() for scope in SCOPES}
    for scope, pattern in touched:
        patterns[scope].add(pattern)
        if scope == "address":
            patterns[scope].add(pattern.partition("/")[0])
    if everything:
        plan.broker = table.limits(BROKER, "")
    for vhost in list(broker.vhosts.values()):
        its_own = everything or bool(patterns["vhost"].matching(vhost.name))
        if its_own:
            plan.vhosts.append((vhost, table.limits("vhost", vhost.name)))
        for queue in list(vhost.queues.values()):
            broker.work.done += LOOK_WORK
            if broker.work.used_up():
                yield
            if not queue.deleted and (its_own or patterns["queue"].matching(queue.name)):
                broker.work.done += RESOLVE_WORK + table.policies.work(vhost.name, queue.name)
                resolve_queue(broker, table, queue, plan, passing_over)
        for exchange in list(vhost.exchanges.values()):
            broker.work.done += LOOK_WORK
            if broker.work.used_up():
                yield
            if everything or patterns["address"].matching(exchange.name):
                plan.addresses.append((vhost, exchange, table.limits("address", exchange.name)))
    return plan


def resolve_queue(broker: Broker, table: SettingsTable, queue: Queue, plan: SettingsChange, passing_over: bool) -> None:
    """Add a queue with its new settings to a plan; with `passing_over` not if they are contradictory.

    Raises PreconditionFailed (406) otherwise.
    """
    try:
        settings = table.queue(queue.vhost, queue.name, queue.settings.given, kind_of(queue.features))
        check(queue.name, settings, queue.features, broker.journal)
        plan.queues.append((queue, settings))
    except BrokerError:
        if not passing_over:
            raise


def _values(words: dict[str, SettingValue]) -> dict[str, tuple[str, object]]:
    return {name: (word.alias, word.value()) for name, word in words.items()}


def _not_set_message(broker: Broker, scope: str, pattern: str, subject: str, name: str) -> str:
    what = f"{name} of {subject}" if name else subject
    in_file = broker.table.entries_of(scope, pattern, FILE)
    if in_file if not name else name in in_file:
        return (
            f"{what} is not set by command but by the settings file; change it there and reload, or set it by command"
        )
    if name:
        return f"{what} is not set; nothing to unset"
    known = [entry.pattern for entry in broker.table.entries() if entry.scope == scope and entry.command]
    near = nearest(pattern, known)
    return f"nothing is set for {subject}; nothing to unset" + (f"; did you mean '{near}'?" if near else "")


MATCHED_A_STEP: Final = 8
"""Changed policies from which on every queue of the virtual host is resolved, instead of matched with each of them."""


class PolicyKey:
    """The name of a policy, for changes and for the record of its removal."""

    def __init__(self, vhost: str, name: str, operator: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.operator = operator

    def title(self) -> str:
        """Return its kind and name, for sentences."""
        return f"{'operator policy' if self.operator else 'policy'} '{self.name}' of vhost '{self.vhost}'"


class PolicyChange:
    """A changed policy: the one to set, or None to remove it; afterwards also the former one."""

    def __init__(self, key: PolicyKey, policy: Policy | None) -> None:
        self.key = key
        self.policy = policy
        self.before: Policy | None = None


def setting(policy: Policy) -> PolicyChange:
    """Return the change that sets a policy."""
    return PolicyChange(PolicyKey(policy.vhost, policy.name, policy.operator), policy)


def clear_policy_steps(broker: Broker, vhost: str, name: str, operator: bool) -> Steps[SettingsChange]:
    """Remove a policy. Raises NotFound (404), PreconditionFailed (406) if a queue is invalid without it."""
    key = PolicyKey(vhost, name, operator)
    if broker.table.policies.get(vhost, name, operator) is None:
        raise NotFound(f"no {key.title()}")
    return (yield from change_policies_steps(broker, [PolicyChange(key, None)]))


def change_policies_steps(broker: Broker, changes: list[PolicyChange]) -> Steps[SettingsChange]:
    """Set and remove policies, all or none; return the queues and exchanges concerned.

    Raises PreconditionFailed (406) if a queue's settings are contradictory with them, ResourceError (506) at a limit.
    """
    if broker.journal is not None and any(change.policy is not None for change in changes):
        broker.journal.check_writable()
    done: list[PolicyChange] = []
    try:
        for change in changes:
            change.before = _put(broker.table, change.key, change.policy)
            done.append(change)
        plan = yield from _prepare_policies(broker, broker.table, changes, False)
    except BrokerError:
        for change in reversed(done):
            _put(broker.table, change.key, change.before)
        plan = yield from _prepare_policies(
            broker, broker.table, done, True
        )  # For everything that was declared meanwhile.
        yield from broker.apply_settings(plan)
        raise
    yield from broker.apply_settings(plan)
    if broker.journal is not None:
        for change in changes:
            if change.policy is not None:
                broker.journal.change(change.policy)
            elif change.before is not None:
                broker.journal.forget(change.key)
    return plan


def try_policies_steps(broker: Broker, table: SettingsTable, changes: list[PolicyChange]) -> Steps[None]:
    """Set policies in a copy of the broker's table. Raises as `change_policies_steps` does."""
    before = [_put(table, change.key, change.policy) for change in changes]
    try:
        yield from _prepare_policies(broker, table, changes, False)
    except BrokerError:
        for change, policy in zip(reversed(changes), reversed(before), strict=True):
            _put(table, change.key, policy)
        raise


def drop_policies(broker: Broker, vhost: str) -> None:
    """Remove all policies of a virtual host that is deleted."""
    for operator in (False, True):
        for policy in broker.table.policies.of(vhost, operator):
            broker.table.policies.drop(vhost, policy.name, operator)
            if broker.journal is not None:
                broker.journal.forget(PolicyKey(vhost, policy.name, operator))
    broker.table.forget_shared()


def _put(table: SettingsTable, key: PolicyKey, policy: Policy | None) -> Policy | None:
    table.forget_shared()
    if policy is None:
        return table.policies.drop(key.vhost, key.name, key.operator)
    return table.policies.put(policy)


def _prepare_policies(
    broker: Broker, table: SettingsTable, changes: list[PolicyChange], passing_over: bool
) -> Steps[SettingsChange]:
    """Resolve everything that the changes concern by a table; `passing_over` queues that cannot be resolved."""
    plan = SettingsChange()
    by_vhost: dict[str, list[Policy]] = {}
    for change in changes:
        touched = by_vhost.setdefault(change.key.vhost, [])
        for policy in (change.before, change.policy):
            if policy is not None:
                touched.append(policy)
    for name, policies in by_vhost.items():
        vhost = broker.vhosts.get(name)
        if vhost is not None:
            yield from _prepare_vhost(broker, table, vhost, policies, plan, passing_over)
    return plan


def concerns(policy: Policy, queue: Queue, kind: str) -> bool:
    """Return whether a changed policy may apply to a queue: it matches, and no unchanged one has precedence."""
    pair = queue.settings.policies
    present = pair.operator if policy.operator else pair.policy
    if present is not None and present is not policy and present.name != policy.name and present.precedes(policy):
        return False
    return policy.covers(kind, queue.name)


def _prepare_vhost(
    broker: Broker,
    table: SettingsTable,
    vhost: VirtualHost,
    policies: list[Policy],
    plan: SettingsChange,
    passing_over: bool,
) -> Steps[None]:
    everything = len(policies) >= MATCHED_A_STEP
    look_work = LOOK_WORK * min(len(policies), MATCHED_A_STEP)
    for queue in list(vhost.queues.values()):
        broker.work.done += look_work
        if broker.work.used_up():
            yield
        kind = kind_of(queue.features)
        if queue.deleted or not (everything or any(concerns(policy, queue, kind) for policy in policies)):
            continue
        broker.work.done += RESOLVE_WORK + table.policies.work(vhost.name, queue.name)
        resolve_queue(broker, table, queue, plan, passing_over)
    for exchange in list(vhost.exchanges.values()):
        broker.work.done += look_work
        if broker.work.used_up():
            yield
        if everything or any(policy.covers(EXCHANGES, exchange.name) for policy in policies):
            broker.work.done += RESOLVE_WORK + table.policies.work(vhost.name, exchange.name)
            policy = table.policies.best(vhost.name, EXCHANGES, exchange.name, False)
            plan.exchanges.append((vhost, exchange, policy))
