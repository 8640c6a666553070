"""Changes of policies at run time: all or nothing, in effect at once, and in steps as changes of settings are.

Queues and exchanges that a changed policy matches, before or after, are resolved again, unless another policy has
precedence for them. Others are only looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.settings.changes import LOOK_WORK, RESOLVE_WORK, resolve_queue
from penstock.core.settings.policy import EXCHANGES, Policy, kind_of
from penstock.core.settings.settings_change import SettingsChange
from penstock.errors import BrokerError, NotFound
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.queue.queue import Queue
    from penstock.core.settings.table import SettingsTable
    from penstock.core.vhost import VirtualHost

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
        plan = yield from _prepare(broker, broker.table, changes, False)
    except BrokerError:
        for change in reversed(done):
            _put(broker.table, change.key, change.before)
        plan = yield from _prepare(broker, broker.table, done, True)  # For everything that was declared meanwhile.
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
        yield from _prepare(broker, table, changes, False)
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


def _prepare(
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
