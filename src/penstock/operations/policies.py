"""Policies and operator policies."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, POLICYMAKER
from penstock.access.rules import DEFAULT_EXCHANGE
from penstock.connections.authorization import check_tag
from penstock.connections.control_request import ControlRequest
from penstock.core.queue.types import STREAM
from penstock.core.settings.changes import (
    PolicyChange,
    change_policies_steps,
    clear_policy_steps,
    setting,
    try_policies_steps,
)
from penstock.core.settings.policies import Policy
from penstock.core.settings.policy_reader import read_policy, reading_work
from penstock.describe.list_kinds import ListKind, of_vhosts
from penstock.describe.table import Field, Row, Table
from penstock.describe.vhost import policy_row
from penstock.flow.work import Steps
from penstock.management.effective_settings import hidden_steps, some
from penstock.management.federation_links import missing_sentence
from penstock.management.node import Node
from penstock.management.operation import BY_EVERYWHERE, ROW_WORK, Operation, Route, looking, rows_steps
from penstock.operations import joins
from penstock.operations.definitions_kinds import Definitions, Together, check_vhost
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing
from penstock.settings.table import OF_STREAMS

FIELDS: Final[tuple[str, ...]] = ("pattern", "definition", "priority", "apply-to")


def set_policy(node: Node, request: ControlRequest) -> Steps[Row]:
    """Set a policy, which is in effect with the answer. The answer lists the objects concerned.

    Raises NotFound (404) for the virtual host, PreconditionFailed (406) for an invalid policy, or a policy that
    contradicts the arguments of a queue, ResourceError (506) at a limit.
    """
    operator, host = _operator(request), node.vhost(request.vhost.name).name
    fields = {name: request.fields[name] for name in FIELDS if request.fields.get(name) is not None}
    node.broker.work.done += reading_work(fields)
    policy = read_policy(host, request.text("name"), fields, operator)
    created = _find(node, request) is None
    plan = yield from change_policies_steps(node.broker, [setting(policy)])
    node.record_setting(
        policy.title(), f"set by {request.asker()}: '{policy.pattern.text}', {policy.definition}", request.access.user
    )
    both = [(queue, queue.settings.policies) for queue, _ in plan.queues]
    queues = [queue for queue, pair in both if policy in (pair.policy, pair.operator)]
    hidden = yield from hidden_steps(node.broker, queues, policy.values)
    exchanges = [exchange.name or DEFAULT_EXCHANGE for _, exchange, _ in plan.exchanges if exchange.policy is policy]
    return {
        **policy_row(policy),
        "created": created,
        "queues": len(queues),
        "exchanges": len(exchanges),
        "overflow": plan.overflow.sentences(),
        "sentences": [
            *_sentences(policy, [queue.name for queue in queues], exchanges),
            *plan.overflow.sentences(),
            *hidden,
            *[sentence for sentence in (missing_sentence(node.broker, policy),) if sentence],
        ],
    }


def clear_policy(node: Node, request: ControlRequest) -> Steps[Row]:
    """Remove a policy. Raises NotFound (404), PreconditionFailed (406) if a queue is invalid without it."""
    name, operator, host = request.text("name"), _operator(request), node.vhost(request.vhost.name).name
    before = _find(node, request)
    plan = yield from clear_policy_steps(node.broker, host, name, operator)
    assert before is not None
    node.record_setting(before.title(), f"cleared by {request.asker()}", request.access.user)
    counts = {"queues": len(plan.queues), "exchanges": len(plan.exchanges)}
    return {"name": name, "operator": operator, **counts, "overflow": plan.overflow.sentences()}


def list_policies(node: Node, request: ControlRequest) -> Steps[Row]:
    """List the policies of the virtual host, or with `everywhere` of all; `without_effect` has the ineffective keys."""
    hosts = [request.vhost.name]
    if request.flag("everywhere"):
        hosts = [host for host in node.broker.vhosts if request.is_over_http() or request.access.rules.enters(host)]
    policies = _of(node, request, hosts)
    rows = yield from rows_steps(node, policies, lambda policy: {**policy_row(policy), "without_effect": policy.idle})
    return {"policies": rows}


def _row(node: Node, request: ControlRequest) -> Row | None:
    policy = _find(node, request)
    return None if policy is None else policy_row(policy)


def _find(node: Node, request: ControlRequest) -> Policy | None:
    return node.broker.table.policies.get(request.vhost.name, request.text("name"), request.flag("operator"))


def _of(node: Node, request: ControlRequest, hosts: list[str]) -> list[Policy]:
    operator = request.flag("operator")
    return [policy for host in hosts for policy in node.broker.table.policies.of(host, operator)]


def _operator(request: ControlRequest) -> bool:
    """Return whether a request is about operator policies. Raises AccessRefused (403) without the tag administrator."""
    operator = request.flag("operator")
    if operator and not request.is_over_http():
        check_tag(request.access, ADMINISTRATOR, "a change of operator policies")
    return operator


def idle_sentence(policy: Policy) -> str:
    """Return a sentence about keys without effect and excluded types of queues; "" without any."""
    excluded = dict(policy.excluded)
    if policy.apply_to != STREAM.apply_to and policy.values.keys().isdisjoint(OF_STREAMS):
        excluded.pop(STREAM.apply_to, None)  # Most policies are for queues, and do not mean streams.
    parts = [f"it does not apply to {kind.replace('_', ' ')} because of {key}" for kind, key in excluded.items()]
    if policy.idle:
        have = "has" if len(policy.idle) == 1 else "have"
        parts.insert(0, f"{', '.join(policy.idle)} {have} no effect here; kept, and exported again")
    return "; ".join(parts)


def _sentences(policy: Policy, queues: list[str], exchanges: list[str]) -> list[str]:
    named = (("queue", queues), ("exchange", exchanges))
    sentences = [f"it applies to {kind} {some(names)}" for kind, names in named if names]
    idle = idle_sentence(policy)
    return (sentences or ["no queue matches yet; it will apply to new ones"]) + ([idle] if idle else [])


def _put_back(node: Node, values: list[tuple[Policy, Policy | None]]) -> Steps[object]:
    there = [(policy, before) for policy, before in values if policy.vhost in node.broker.vhosts]
    return change_policies_steps(node.broker, [PolicyChange(policy, before) for policy, before in there])


POLICIES: Final[Section] = Section(
    "policies",
    "name pattern definition",
    texts="name vhost pattern apply-to",
    objects="definition",
    numbers="priority",
)


def _definitions(operator: bool) -> Definitions:
    """Return definitions of policies, or of operator policies, which are parameters."""
    kind = "operator policy" if operator else "policy"

    def read(node: Node, entry: Entry) -> Policy:
        fields = entry.table("value") if operator else entry.fields
        node.broker.work.done += reading_work(fields)
        return read_policy(entry.text("vhost"), entry.text("name"), fields, operator)

    return Definitions(
        Section("operator_policies", component="operator_policy") if operator else POLICIES,
        subject=lambda entry: f"{kind} '{entry.text('name')}' of vhost '{entry.text('vhost')}'",
        read=read,
        row=lambda policy: policy.fields(),
        find=lambda node, entry: node.broker.table.policies.get(entry.text("vhost"), entry.text("name"), operator),
        together=TOGETHER,
        check=lambda node, entry, policy, planned: check_vhost(node, entry, planned),
        same=lambda node, entry, before, policy: before is not None and before.equals(policy),
        note=idle_sentence,
    )


TOGETHER: Final[Together] = Together(
    put=lambda node, policies: change_policies_steps(node.broker, [setting(policy) for policy in policies]),
    rehearse=lambda node, table, policies: try_policies_steps(
        node.broker, table, [setting(policy) for policy in policies]
    ),
    put_back=_put_back,
    record=lambda policy: (policy.title(), f"set by an import: {policy.definition}"),
)
DEFINITIONS: Final[Definitions] = _definitions(False)
OPERATOR_DEFINITIONS: Final[Definitions] = _definitions(True)


def _routes(method: str, purpose: str, needed: tuple[str, ...] = ()) -> tuple[Route, ...]:
    """Return the routes of one policy, and of one operator policy (administrators only)."""
    silent = method != "GET"
    tag, path = ADMINISTRATOR if silent else MANAGEMENT, "/operator-policies/{vhost}/{name}"
    return (
        Route(f"{method} /policies/{{vhost}}/{{name}}", purpose, needed=needed, fixed=OF_USERS, silent=silent),
        Route(f"{method} {path}", purpose, tag=tag, needed=needed, fixed=OF_OPERATORS, silent=silent),
    )


OF_USERS: Final[Row] = {"operator": False}
OF_OPERATORS: Final[Row] = {"operator": True}


def _kind(name: str, operator: bool) -> ListKind:
    return ListKind(
        name,
        of_vhosts(lambda node, vhost: node.broker.table.policies.of(vhost.name, operator)),
        Table(Field("policy.*", lambda policy, at: policy_row(policy))),
        lambda policy: str(policy.name),
        fifths=5 * ROW_WORK,
    )


KINDS: Final[tuple[ListKind, ...]] = (_kind("policies", False), _kind("operator-policies", True))
LIST: Final = "List policies, all or of a virtual host."
PUT: Final = "Set a policy: 201 if it is new, 204 if it is changed."
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("policy.set", set_policy, ("name", *FIELDS, "operator"), tag=POLICYMAKER, before=_row,
              routes=_routes("PUT", PUT, ("pattern", "definition"))),
    Operation("policy.clear", clear_policy, ("name", "operator"), tag=POLICYMAKER, before=_row,
              routes=_routes("DELETE", "Remove a policy.")),
    looking("policy.list", list_policies, ("operator", "everywhere"), tag=MANAGEMENT, asks=BY_EVERYWHERE,
            join=joins.POLICIES),
    *(listing(kind, f"GET /{kind.name} /{kind.name}/{{vhost}}", LIST) for kind in KINDS),
    looking("", _row, tag=POLICYMAKER, routes=_routes("GET", "Show a policy.")),
)  # fmt: skip
