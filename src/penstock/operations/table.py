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
from penstock.management.node import Node, answer_reload
from penstock.management.operation import Answer, Operation, Route, looking
from penstock.management.redaction import answer_why
from penstock.operations import (
    blocks,
    connections,
    definitions_export,
    definitions_import,
    health,
    jobs,
    limits,
    lists,
    messages,
    node,
    parameters,
    permissions,
    policies,
    settings,
    spark,
    stand_ins,
    top,
    topology,
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
    return _for_people(node, request, answer)


def _for_people(node: Node, request: ControlRequest, answer: Row) -> Row:
    """Add sentences about jobs, and give connections the names that their clients gave them."""
    sentences = answer["sentences"]
    assert isinstance(sentences, list)
    sentences = [*sentences, *jobs.sentences(node, request)]
    answer["sentences"] = [labelled(sentence, node.connections) for sentence in sentences]
    return answer


OPERATIONS: Final[tuple[Operation, ...]] = (
    *spark.OPERATIONS,
    *lists.OPERATIONS,
    looking("why", _why, why.SUBJECTS, tag=MANAGEMENT, routes=(
        Route("GET /penstock/why", "Explain why nothing moves, as `penstock why --json`: for a queue, connection, "
              "channel or user, or for all.", query=why.SUBJECTS, queried=True),
    )),
    looking("watch", answer_watch, ("after", "queue"), tag=MONITORING),
    looking("status", control_api.answer_status, tag=MONITORING),
    *top.OPERATIONS,
    Operation("tls.reload", lambda node, request: answer_reload(node.certificates, request)),
    *settings.OPERATIONS,
    *blocks.OPERATIONS,
    *connections.OPERATIONS,
    *policies.OPERATIONS,
    *parameters.OPERATIONS,
    *users.OPERATIONS,
    *permissions.OPERATIONS,
    *limits.OPERATIONS,
    *vhosts.OPERATIONS,
    *topology.OPERATIONS,
    *definitions_export.OPERATIONS,
    *definitions_import.OPERATIONS,
    *messages.OPERATIONS,
    *node.OPERATIONS,
    *health.OPERATIONS,
    *stand_ins.OPERATIONS,
    *jobs.OPERATIONS,
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
)
"""Kinds of lists."""
