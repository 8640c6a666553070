"""Operations on policies and operator policies: set, clear and list them at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.rules import DEFAULT_EXCHANGE
from penstock.access.tags import ADMINISTRATOR
from penstock.core.settings.changes import change_policies_steps, clear_policy_steps, setting
from penstock.core.settings.policies import Policy, read_policy, reading_work
from penstock.core.settings.table import SettingsChange
from penstock.describe.user import policy_row
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.effective_settings import hidden_steps, some
from penstock.management.vhost_admin import find_vhost
from penstock.protocols.common.authorization import check_tag

if TYPE_CHECKING:
    from penstock.management.node import Node

POLICY_WORK: Final = 5
"""Units of work per listed policy."""
FIELDS: Final = ("pattern", "definition", "priority", "apply-to")


def set_policy_steps(
    node: Node, vhost: str, name: str, fields: dict[str, object], operator: bool, asker: str
) -> Steps[tuple[Policy, Policy | None, SettingsChange]]:
    """Set a policy of a virtual host; return it, the former one if there was one, and what it concerns.

    Raises NotFound (404) for the virtual host, PreconditionFailed (406) for an invalid policy, or one that contradicts
    the arguments of a queue, ResourceError (506) at a limit.
    """
    find_vhost(node, vhost)
    node.broker.work.done += reading_work(fields)
    policy = read_policy(vhost, name, fields, operator)
    before = node.broker.table.policies.get(vhost, name, operator)
    plan = yield from change_policies_steps(node.broker, [setting(policy)])
    node.record_setting(policy.title(), f"set by {asker}: '{policy.pattern.text}', {policy.definition}")
    return policy, before, plan


def clear_steps(node: Node, vhost: str, name: str, operator: bool, asker: str) -> Steps[SettingsChange]:
    """Remove a policy. Raises NotFound (404), PreconditionFailed (406) if a queue is invalid without it."""
    find_vhost(node, vhost)
    before = node.broker.table.policies.get(vhost, name, operator)
    plan = yield from clear_policy_steps(node.broker, vhost, name, operator)
    assert before is not None
    node.record_setting(before.title(), f"cleared by {asker}")
    return plan


def answer_set(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer policy.set {name, pattern, definition, priority, apply-to, operator}: in effect with the answer."""
    operator = _operator(request)
    fields = {name: request.fields[name] for name in FIELDS if request.fields.get(name) is not None}
    policy, before, plan = yield from set_policy_steps(
        node, request.vhost.name, request.text("name"), fields, operator, request.asker()
    )
    request.before = None if before is None else policy_row(before)
    queues = [queue for queue, _ in plan.queues if _applies(policy, queue.settings.policies.policy)
              or _applies(policy, queue.settings.policies.operator)]  # fmt: skip
    hidden = yield from hidden_steps(node.broker, queues, policy.words)
    exchanges = [exchange.name or DEFAULT_EXCHANGE for _, exchange, _ in plan.exchanges if exchange.policy is policy]
    return {
        **policy_row(policy),
        "created": before is None,
        "queues": len(queues),
        "exchanges": len(exchanges),
        "sentences": _sentences(policy, [queue.name for queue in queues], exchanges) + hidden,
    }


def answer_clear(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer policy.clear {name, operator}. Raises as `clear_steps` does."""
    name, operator = request.text("name"), _operator(request)
    before = node.broker.table.policies.get(request.vhost.name, name, operator)
    request.before = None if before is None else policy_row(before)
    plan = yield from clear_steps(node, request.vhost.name, name, operator, request.asker())
    return {"name": name, "operator": operator, "queues": len(plan.queues), "exchanges": len(plan.exchanges)}


def answer_list(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer policy.list {operator, everywhere}: the policies by name; bounded by their number."""
    hosts = [request.vhost.name]
    if request.flag("everywhere"):
        hosts = [host for host in node.broker.vhosts if request.connection is None or request.access.rules.enters(host)]
    found: list[dict[str, object]] = []
    for host in hosts:
        for policy in node.broker.table.policies.of(host, request.flag("operator")):
            node.broker.work.done += POLICY_WORK
            if node.broker.work.used_up():
                yield
            found.append({**policy_row(policy), "without_effect": policy.idle})
    return {"policies": found}


def _operator(request: ControlRequest) -> bool:
    """Return whether operator policies are meant, which only administrators change. Raises AccessRefused (403)."""
    operator = request.flag("operator")
    if operator and request.connection is not None:
        check_tag(request.access, ADMINISTRATOR, "a change of operator policies")
    return operator


def idle_sentence(policy: Policy) -> str:
    """Return a sentence about keys without effect, and types of queues left out; "" if there are none."""
    said = [f"it does not apply to {kind.replace('_', ' ')} because of {key}" for kind, key in policy.excluded.items()]
    if policy.idle:
        have = "has" if len(policy.idle) == 1 else "have"
        said.insert(0, f"{', '.join(policy.idle)} {have} no effect here; kept, and exported again")
    return "; ".join(said)


def _applies(policy: Policy, other: Policy | None) -> bool:
    return other is policy


def _sentences(policy: Policy, queues: list[str], exchanges: list[str]) -> list[str]:
    found: list[str] = []
    for kind, names in (("queue", queues), ("exchange", exchanges)):
        if names:
            found.append(f"it applies to {kind} {some(names)}")
    if not found:
        found.append("it applies to nothing yet; it will count for what comes")
    idle = idle_sentence(policy)
    return [*found, idle] if idle else found
