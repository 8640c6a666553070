"""The table of all operations: of the nouns, those that look at the whole broker, and `tls.reload`."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.connections.authorization import check_tag
from penstock.connections.connection_names import labelled
from penstock.connections.control_request import ControlRequest
from penstock.describe.list_kinds import KINDS as OWN_KINDS
from penstock.describe.list_kinds import ListKind
from penstock.describe.table import Row
from penstock.flow.work import Steps
from penstock.management import blocked_overview, control_api, why
from penstock.management.flow_log_records import answer_watch
from penstock.management.node import TLS_RELOAD, Node, answer_reload
from penstock.management.operation import (
    ALL,
    CATALOGUE,
    JOINED,
    NODE,
    VHOST,
    Answer,
    Choice,
    Operation,
    Route,
    looking,
)
from penstock.management.redaction import answer_why
from penstock.operations import (
    alarms,
    blocks,
    bridges,
    browsing,
    catalogue,
    cluster,
    connections,
    definitions_export,
    definitions_import,
    delayed,
    federation,
    find,
    health,
    info,
    jobs,
    joins,
    limits,
    lists,
    messages,
    node,
    parameters,
    permissions,
    policies,
    rabbitmq_bridges,
    redrive_preview,
    resources,
    settings,
    spark,
    stand_ins,
    top,
    topology,
    transfers,
    users,
    vhosts,
)


def _why(node: Node, request: ControlRequest) -> Answer | Steps[Answer]:
    if blocked_overview.is_named(request):
        return _for_people(node, request, answer_why(request, node))
    check_tag(request.access, MONITORING, "an overview of all that is blocked")
    return _everything_steps(node, request)


def _everything_steps(node: Node, request: ControlRequest) -> Steps[Answer]:
    answer = yield from blocked_overview.of_everything_steps(node, request.vhost.name)
    parts = answer.pop(blocked_overview.PARTS)
    assert isinstance(parts, dict)
    parts["jobs"] = jobs.sentences(node, request)
    if JOINED in request.fields:
        answer[JOINED] = _labelled(node, parts)
    answer["sentences"] = _labelled(node, blocked_overview.composed(parts))
    return answer


def _for_people(node: Node, request: ControlRequest, answer: Row) -> Row:
    """Add sentences about jobs, and give connections the names that their clients gave them."""
    sentences = answer["sentences"]
    assert isinstance(sentences, list)
    answer["sentences"] = _labelled(node, [*sentences, *jobs.sentences(node, request)])
    for name, of in (("line", "producer"), ("waits_for", "channel")):
        rows = answer.get(name)
        for row in rows if isinstance(rows, list) else []:
            row["label"] = _labelled(node, row.get(of))
    return answer


def _labelled(node: Node, texts: object) -> object:
    """Return texts, or an object of texts, with the names that clients gave their connections."""
    if isinstance(texts, str):
        return labelled(texts, node.connections)
    if isinstance(texts, list):
        return [_labelled(node, each) for each in texts]
    return {name: _labelled(node, each) for name, each in texts.items()} if isinstance(texts, dict) else texts


def _asks_of_kind(fields: Row) -> str:
    """Return which brokers answer a list on the control exchange."""
    kind = next((each for each in KINDS if each.name == fields.get("kind")), None)
    if kind is not None and kind.copied:
        return CATALOGUE
    return ALL if fields.get("everywhere") is True or (kind is not None and kind.everywhere) else VHOST


BY_QUEUE: Final[Choice] = Choice((VHOST, ALL), lambda fields: ALL if fields.get("queue") is None else VHOST)
BY_SUBJECT: Final[Choice] = BY_QUEUE
"""All are asked for connections and users, which any may have."""
BY_KIND: Final[Choice] = Choice((VHOST, CATALOGUE, ALL), lambda fields: _asks_of_kind(fields))
OPERATIONS: Final[tuple[Operation, ...]] = (
    *spark.OPERATIONS,
    looking("list", lists.answer_list, lists.FIELDS, tag=MANAGEMENT, asks=BY_KIND, join=joins.LIST),
    looking("why", _why, why.SUBJECTS, tag=MANAGEMENT, asks=BY_SUBJECT, join=joins.WHY,
            routes=(
        Route("GET /penstock/why", "Explain why nothing moves, as `penstock why --json`: for a queue, connection, "
              "channel or user, or for all.", query=why.SUBJECTS, queried=True),
    )),
    looking("watch", answer_watch, ("after", "queue"), tag=MONITORING, asks=BY_QUEUE, join=joins.WATCH),
    looking("status", control_api.answer_status, tag=MONITORING, asks=ALL, join=joins.STATUS),
    *top.OPERATIONS,
    *find.OPERATIONS,
    Operation(TLS_RELOAD, lambda node, request: answer_reload(node.certificates, request), asks=NODE),
    *settings.OPERATIONS,
    *blocks.OPERATIONS,
    *connections.OPERATIONS,
    *policies.OPERATIONS,
    *parameters.OPERATIONS,
    *bridges.OPERATIONS,
    *rabbitmq_bridges.OPERATIONS,
    *users.OPERATIONS,
    *permissions.OPERATIONS,
    *limits.OPERATIONS,
    *vhosts.OPERATIONS,
    *topology.OPERATIONS,
    *transfers.OPERATIONS,
    *redrive_preview.OPERATIONS,
    *definitions_export.OPERATIONS,
    *definitions_import.OPERATIONS,
    *messages.OPERATIONS,
    *browsing.OPERATIONS,
    *delayed.OPERATIONS,
    *federation.OPERATIONS,
    *node.OPERATIONS,
    *health.OPERATIONS,
    *info.OPERATIONS,
    *stand_ins.OPERATIONS,
    *jobs.OPERATIONS,
    *cluster.OPERATIONS,
    *alarms.OPERATIONS,
    *catalogue.OPERATIONS,
    *resources.OPERATIONS,
)  # fmt: skip
CONTROL: Final[dict[str, Operation]] = {row.name: row for row in OPERATIONS if row.name}
"""Operations of the control exchange, by name."""
KINDS: Final[tuple[ListKind, ...]] = (
    *OWN_KINDS,
    users.KIND,
    *permissions.KINDS,
    *policies.KINDS,
    parameters.KIND,
    parameters.GLOBAL_KIND,
    bridges.KIND,
)
"""Kinds of lists."""
