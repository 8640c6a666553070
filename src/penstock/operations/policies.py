"""Policies and operator policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.access.connection_access import DEFAULT_EXCHANGE
from penstock.access.tags import ADMINISTRATOR, MANAGEMENT, POLICYMAKER
from penstock.core.settings.changes import (
    PolicyChange,
    change_policies_steps,
    clear_policy_steps,
    setting,
    try_policies_steps,
)
from penstock.core.settings.policies import Policy, read_policy, reading_work
from penstock.describe.table import Row
from penstock.describe.user import policy_row
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.effective_settings import hidden_steps, some
from penstock.management.operation import Operation, Route, looking
from penstock.operations.definitions_kinds import (
    CHANGED,
    CREATED,
    UNCHANGED,
    DefinitionKind,
    Difference,
    Made,
    Planned,
    check_vhost,
    details_of,
)
from penstock.operations.definitions_parser import Entry
from penstock.operations.listing import entered, rows_steps
from penstock.protocols.common.authorization import check_tag

if TYPE_CHECKING:
    from penstock.management.node import Node

FIELDS: Final = ("pattern", "definition", "priority", "apply-to")


def set_policy(node: Node, request: ControlRequest) -> Steps[Row]:
    """Set a policy; it is in effect with the answer, which says what it concerns.

    Raises NotFound (404) for the virtual host, PreconditionFailed (406) for an invalid policy, or one that contradicts
    the arguments of a queue, ResourceError (506) at a limit.
    """
    operator, host = _operator(request), node.vhost(request.vhost.name).name
    fields = {name: request.fields[name] for name in FIELDS if request.fields.get(name) is not None}
    node.broker.work.done += reading_work(fields)
    policy = read_policy(host, request.text("name"), fields, operator)
    created = _find(node, request) is None
    plan = yield from change_policies_steps(node.broker, [setting(policy)])
    node.record_setting(policy.title(), f"set by {request.asker()}: '{policy.pattern.text}', {policy.definition}")
    both = [(queue, queue.settings.policies) for queue, _ in plan.queues]
    queues = [queue for queue, pair in both if policy in (pair.policy, pair.operator)]
    hidden = yield from hidden_steps(node.broker, queues, policy.words)
    exchanges = [exchange.name or DEFAULT_EXCHANGE for _, exchange, _ in plan.exchanges if exchange.policy is policy]
    return {
        **policy_row(policy),
        "created": created,
        "queues": len(queues),
        "exchanges": len(exchanges),
        "sentences": _sentences(policy, [queue.name for queue in queues], exchanges) + hidden,
    }


def clear_policy(node: Node, request: ControlRequest) -> Steps[Row]:
    """Remove a policy. Raises NotFound (404), PreconditionFailed (406) if a queue is invalid without it."""
    name, operator, host = request.text("name"), _operator(request), node.vhost(request.vhost.name).name
    before = _find(node, request)
    plan = yield from clear_policy_steps(node.broker, host, name, operator)
    assert before is not None
    node.record_setting(before.title(), f"cleared by {request.asker()}")
    return {"name": name, "operator": operator, "queues": len(plan.queues), "exchanges": len(plan.exchanges)}


def list_policies(node: Node, request: ControlRequest) -> Steps[Row]:
    """List the policies of the virtual host, or with `everywhere` of all; `without_effect` has the keys that idle."""
    hosts = [request.vhost.name]
    if request.flag("everywhere"):
        hosts = [host for host in node.broker.vhosts if request.connection is None or request.access.rules.enters(host)]
    rows = yield from rows_steps(node, _of(node, request, hosts), _row_with_idle)
    return {"policies": rows}


def _rows(node: Node, request: ControlRequest) -> Steps[list[Row]]:
    return rows_steps(node, _of(node, request, entered(node, request)), policy_row)


def _row(node: Node, request: ControlRequest) -> Row | None:
    found = _find(node, request)
    return None if found is None else policy_row(found)


def _find(node: Node, request: ControlRequest) -> Policy | None:
    return node.broker.table.policies.get(request.vhost.name, request.text("name"), request.flag("operator"))


def _of(node: Node, request: ControlRequest, hosts: list[str]) -> list[Policy]:
    operator = request.flag("operator")
    return [policy for host in hosts for policy in node.broker.table.policies.of(host, operator)]


def _row_with_idle(policy: Policy) -> Row:
    return {**policy_row(policy), "without_effect": policy.idle}


def _operator(request: ControlRequest) -> bool:
    """Return whether operator policies are meant, which only administrators change. Raises AccessRefused (403)."""
    operator = request.flag("operator")
    if operator and request.connection is not None:
        check_tag(request.access, ADMINISTRATOR, "a change of operator policies")
    return operator


def idle_sentence(policy: Policy) -> str:
    """Return a sentence about keys without effect, and types of queues left out; "" if there are none."""
    parts = [f"it does not apply to {kind.replace('_', ' ')} because of {key}" for kind, key in policy.excluded.items()]
    if policy.idle:
        have = "has" if len(policy.idle) == 1 else "have"
        parts.insert(0, f"{', '.join(policy.idle)} {have} no effect here; kept, and exported again")
    return "; ".join(parts)


def _sentences(policy: Policy, queues: list[str], exchanges: list[str]) -> list[str]:
    named = (("queue", queues), ("exchange", exchanges))
    found = [f"it applies to {kind} {some(names)}" for kind, names in named if names]
    idle = idle_sentence(policy)
    return (found or ["it applies to nothing yet; it will count for what comes"]) + ([idle] if idle else [])


class PolicyKind(DefinitionKind):
    """Definitions of policies, or of operator policies, which are parameters; all are set at once, at the end."""

    def __init__(self, node: Node, operator: bool) -> None:
        super().__init__(node)
        self.name = "operator_policies" if operator else "policies"
        self._operator = operator
        self._changes: dict[str, PolicyChange] = {}
        """Changes of the gathered entries by subject."""

    @override
    def subject(self, entry: Entry) -> str:
        kind = "operator policy" if self._operator else "policy"
        return f"{kind} '{entry.text('name')}' of vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        host = check_vhost(self.node, entry.text("vhost"), planned)
        policy = self._read(host, entry)
        before = self.node.broker.table.policies.get(host, policy.name, self._operator)
        if before is None:
            found = self.difference(entry, CREATED)
        elif before.equals(policy):
            return self.difference(entry, UNCHANGED)
        else:
            found = self.difference(entry, CHANGED)
            found.details = details_of(before.fields(), policy.fields())
        if not self._gather(entry, policy):
            return self.difference(entry, UNCHANGED)
        found.note = idle_sentence(policy)
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        host = self.node.vhost(entry.text("vhost")).name
        policy = self._read(host, entry)
        before = self.node.broker.table.policies.get(host, policy.name, self._operator)
        if before is None or not before.equals(policy):
            self._gather(entry, policy)

    def _gather(self, entry: Entry, policy: Policy) -> bool:
        """Note an entry for `finish`; return whether it is the first of its name."""
        is_first = self.subject(entry) not in self._changes
        if is_first:
            self._changes[self.subject(entry)] = setting(policy)
            self.gathered.append(entry)
        return is_first

    @override
    def rehearse(self, entries: list[Entry], planned: Planned) -> Steps[None]:
        gathered = [self._changes[self.subject(entry)] for entry in entries]
        yield from try_policies_steps(self.node.broker, planned.table, gathered)

    @override
    def finish(self, entries: list[Entry], made: Made) -> Steps[None]:
        gathered = [self._changes[self.subject(entry)] for entry in entries]
        yield from change_policies_steps(self.node.broker, gathered)
        made.undo_steps.append(lambda: self._put_back(gathered))
        for change in gathered:
            policy = change.policy
            if policy is not None:
                made.add(self.name, CREATED if change.before is None else CHANGED, None)
                idle = idle_sentence(policy)
                if idle:
                    made.notes.append(f"{policy.title()}: {idle}")
                self.node.record_setting(policy.title(), f"set by an import: {policy.definition}")

    def _put_back(self, gathered: list[PolicyChange]) -> Steps[None]:
        back = [
            PolicyChange(change.key, change.before)
            for change in gathered
            if change.key.vhost in self.node.broker.vhosts
        ]
        yield from change_policies_steps(self.node.broker, back)

    def _read(self, host: str, entry: Entry) -> Policy:
        fields = self._fields(entry)
        self.node.broker.work.done += reading_work(fields)
        return read_policy(host, entry.text("name"), fields, self._operator)

    def _fields(self, entry: Entry) -> dict[str, object]:
        return entry.table("value") if self._operator else entry.fields


def _routes(method: str, purpose: str, needed: tuple[str, ...] = ()) -> tuple[Route, ...]:
    """Return the routes of one policy, and of one operator policy, which are for administrators."""
    silent = method != "GET"
    tag, path = ADMINISTRATOR if silent else MANAGEMENT, "/operator-policies/{vhost}/{name}"
    return (
        Route(f"{method} /policies/{{vhost}}/{{name}}", purpose, needed=needed, fixed=OF_USERS, silent=silent),
        Route(f"{method} {path}", purpose, tag=tag, needed=needed, fixed=OF_OPERATORS, silent=silent),
    )


OF_USERS: Final[Row] = {"operator": False}
OF_OPERATORS: Final[Row] = {"operator": True}
LIST: Final = "List policies, all or of a virtual host."
PUT: Final = "Set a policy: 201 if it is new, 204 if it is changed."
OPERATIONS: Final = (
    Operation("policy.set", set_policy, ("name", *FIELDS, "operator"), tag=POLICYMAKER, before=_row,
              routes=_routes("PUT", PUT, ("pattern", "definition"))),
    Operation("policy.clear", clear_policy, ("name", "operator"), tag=POLICYMAKER, before=_row,
              routes=_routes("DELETE", "Remove a policy.")),
    looking("policy.list", list_policies, ("operator", "everywhere"), tag=MANAGEMENT),
    looking("", _rows, tag=MANAGEMENT, routes=(
        Route("GET /policies /policies/{vhost}", LIST),
        Route("GET /operator-policies /operator-policies/{vhost}", LIST, fixed=OF_OPERATORS),
    )),
    looking("", _row, tag=POLICYMAKER, routes=_routes("GET", "Show a policy.")),
)  # fmt: skip
