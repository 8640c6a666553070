"""Answers at RabbitMQ's paths for features that one node of Penstock does not have: in shapes that readers decode.

A client that asks all paths of its server must not fail at one of them. So a path has its real answer, an answer that
is true of one node (its queues are balanced, its features are enabled), or a refusal with a sentence. `REFUSED` lists
the refusals; docs/http.md gives the reasons.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.connections.control_request import ControlRequest
from penstock.core.queue.types import QUORUM
from penstock.describe.table import API_VERSION, Row
from penstock.errors import NotServed, PreconditionFailed
from penstock.flow.wait import Waits
from penstock.management.node import Node
from penstock.management.operation import (
    ANYWHERE,
    NODE,
    VHOST,
    Answer,
    Operation,
    Route,
    Run,
    Waiting,
    looking,
    verdict,
)
from penstock.texts import worded

STABLE: Final = "stable"
FEATURES: Final = {
    "detailed_queues_endpoint": "Queues with all their fields are listed at /queues/detailed",
    "direct_exchange_routing_v2": "Routing by the key of a direct exchange takes constant time",
    "feature_flags_v2": "Feature flags subsystem V2",
    "message_containers": "Messages of all protocols go through the same queues",
    "quorum_queue": "Queues of the type quorum",
    f"rabbitmq_{API_VERSION}": f"The HTTP API is that of RabbitMQ {API_VERSION}",
    "user_limits": "Limits of connections and channels for a user",
    "virtual_host_metadata": "Virtual hosts have a description and tags",
}
"""RabbitMQ's names of features that Penstock always has."""
NOT_OF_PENSTOCK: Final[tuple[str, ...]] = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other", "quorum_queue_procs"),
    *("quorum_queue_dlx_procs", "stream_queue_procs", "stream_queue_replica_reader_procs"),
    *("stream_queue_coordinator_procs", "plugins", "metadata_store", "metrics", "mgmt_db", "mnesia", "quorum_ets"),
    *("metadata_store_ets", "other_ets", "binary", "msg_index", "code", "atom", "other_system", "allocated_unused"),
    "reserved_unallocated",
)
"""RabbitMQ's names of parts of Erlang's memory, which are 0 here: typed clients need each of them."""
REMOVED: Final[dict[str, str]] = {
    "amqp_address_v1": "AMQP 1.0 address format version 1 is not served: addresses are /queues/... and /exchanges/...",
    "classic_queue_mirroring": "Classic mirrored queues are not served: there is one node",
    "ram_node_type": "RAM nodes are not served: there is one node",
}
"""RabbitMQ's names of deprecated features that Penstock does not have."""
PERMITTED: Final[dict[str, str]] = {
    "global_qos": "A prefetch of a whole channel (basic.qos with global=true)",
    "transient_nonexcl_queues": "Queues that are neither durable nor exclusive",
}
"""RabbitMQ's names of features that are deprecated there, and stay here."""
DOCS: Final = "https://www.rabbitmq.com/docs/feature-flags"

REFUSED: Final[dict[str, str]] = {
    "POST DELETE /login": "the console has no session to begin: send the user and the password with each request",
    "GET /config/effective": "ask `penstock config` for the settings in effect",
    **dict.fromkeys(
        (
            "DELETE /reset",
            "DELETE /reset/{node}",
            "DELETE /auth/attempts/{node}",
            "DELETE /auth/attempts/{node}/source",
        ),
        "counters count from the start of the broker, so that rates stay true; they cannot be reset",
    ),
    "GET /users/{user}/queues": "a queue belongs to its virtual host and not to the user who declared it",
    **dict.fromkeys(
        (
            "POST /queues/quorum/{vhost}/{name}/replicas/add",
            "DELETE /queues/quorum/{vhost}/{name}/replicas/delete",
            "POST /queues/quorum/replicas/on/{node}/grow",
            "DELETE /queues/quorum/replicas/on/{node}/shrink",
        ),
        "there is one node, so a queue has one replica",
    ),
}
"""Methods and a path of RabbitMQ's API that are refused (405), and why."""
ACTIONS: Final = "/queues/{vhost}/{name}/actions"
SYNCHRONISATION: Final[tuple[str, ...]] = ("sync", "cancel_sync")
"""Actions of RabbitMQ on mirrored queues; on others they have no effect there, too."""


def _refusal(where: str, sentence: str, tag: str = MANAGEMENT, vhost: str | None = ANYWHERE) -> Operation:
    """Return the row of methods at a path that are refused."""

    def refuse(node: Node, request: ControlRequest) -> Answer:
        raise NotServed(sentence)

    *methods, path = where.split()
    purpose = "Refuse with 405: this cannot be done here."
    routes = tuple([Route(f"{method} {path}", purpose, vhost=vhost, body=False) for method in methods])
    return Operation("", refuse, tag=tag, audited=False, routes=routes, asks="" if vhost is None else NODE)


# Features


def _feature_flags(node: Node, request: ControlRequest) -> list[Row]:
    return [
        {
            "name": name,
            "desc": purpose,
            "doc_url": DOCS,
            "stability": STABLE,
            "state": "enabled",
            "provided_by": "penstock",
            "require_level": "hard",
        }
        for name, purpose in FEATURES.items()
    ]


def _enable_feature(node: Node, request: ControlRequest) -> Row:
    name = request.text("name")
    if name not in FEATURES:
        raise PreconditionFailed(f"the feature flag '{name}' is not supported; there are {', '.join(FEATURES)}")
    return {}


def _deprecated_features(node: Node, request: ControlRequest) -> list[Row]:
    phases = ((REMOVED, "removed", "denied"), (PERMITTED, "permitted_by_default", "permitted"))
    return [
        {
            "name": name,
            "desc": purpose,
            "doc_url": "",
            "deprecation_phase": phase,
            "state": state,
            "provided_by": "penstock",
        }
        for features, phase, state in phases
        for name, purpose in features.items()
    ]


def _none(node: Node, request: ControlRequest) -> list[Row]:
    return []


# The node


def _is_here(node: Node, request: ControlRequest) -> bool:
    return request.text("node") == node.name


def _memory(node: Node, request: ControlRequest) -> Waiting | None:
    return Waiting(_memory_steps(node)) if _is_here(node, request) else None


def _memory_relative(node: Node, request: ControlRequest) -> Waiting | None:
    return Waiting(_relative_steps(node)) if _is_here(node, request) else None


def _memory_steps(node: Node) -> Waits[Answer]:
    yield node.process.sample()
    used = node.process.last.memory_used
    total: Row = {"erlang": used, "rss": used, "allocated": used}
    return {"memory": {**_parts(node), "total": total, "strategy": "rss"}}


def _relative_steps(node: Node) -> Waits[Answer]:
    yield node.process.sample()
    used = node.process.last.memory_used
    return {"memory": {"total": 100, **{name: _percent(size, used) for name, size in _parts(node).items()}}}


def _parts(node: Node) -> dict[str, int]:
    """Return the memory of the last sample by use, in bytes: that of messages, and all else."""
    used = node.process.last.memory_used
    gate = node.broker.gates.memory
    messages = 0 if gate is None else min(int(gate.bytes), used)
    return {**dict.fromkeys(NOT_OF_PENSTOCK, 0), "queue_procs": messages, "other_proc": used - messages}


def _percent(part: int, total: int) -> int:
    """Return a share in percent; at least 1 of what there is."""
    return max(round(100 * part / total), 1) if part > 0 and total > 0 else 0


def _ets_memory(node: Node, request: ControlRequest) -> Row | None:
    return {"ets_tables_memory": "no_tables"} if _is_here(node, request) else None


def _attempts(node: Node, request: ControlRequest) -> list[Row] | None:
    if not _is_here(node, request):
        return None
    more_accepted, more_refused = node.process.logins_elsewhere()
    accepted, refused = int(node.audit.logins_accepted) + more_accepted, int(node.audit.logins_refused) + more_refused
    return [
        {
            "protocol": "amqp",
            "auth_attempts": accepted + refused,
            "auth_attempts_succeeded": accepted,
            "auth_attempts_failed": refused,
        }
    ]


def _attempts_by_source(node: Node, request: ControlRequest) -> list[Row] | None:
    return [] if _is_here(node, request) else None


def _act(node: Node, request: ControlRequest) -> Row | None:
    """Answer an action of RabbitMQ on a queue, which has no effect on a queue of one replica."""
    action = request.fields.get("action")
    if action not in SYNCHRONISATION:
        raise PreconditionFailed(f"unknown action {worded(action)}; there are {' and '.join(SYNCHRONISATION)}")
    return None if request.vhost.queues.get(request.text("name")) is None else {}


def _start_vhost(node: Node, request: ControlRequest) -> Row | None:
    vhost = node.broker.vhosts.get(request.text("vhost"))
    if vhost is None or vhost.deleting:
        return None
    if not _is_here(node, request):
        raise PreconditionFailed(f"Unknown node: {request.text('node')}; this one is {node.name}")
    return {}


# Quorum queues


def _quorum_status(node: Node, request: ControlRequest) -> Answer:
    queue = request.vhost.queues.get(request.text("name"))
    if queue is None:
        return None
    if queue.features.type is not QUORUM:
        return verdict(f"queue '{queue.name}' is no quorum queue")
    row: Row = {
        "Node Name": node.name,
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": int(queue.tail),
        "Last Written": int(queue.tail),
        "Last Applied": int(queue.tail),
        "Commit Index": int(queue.tail),
        "Snapshot Index": 0,
        "Term": 1,
        "Machine Version": 0,
    }
    return [row]


def _unchanged(where: str, purpose: str, run: Run, asks: str = NODE) -> Operation:
    """Return the row of a change that one node has made from the start."""
    return Operation("", run, audited=False, asks=asks, routes=(Route(where, purpose, body=False, silent=True),))


MEMORY: Final = "/nodes/{node}/memory"
ATTEMPTS: Final = "/auth/attempts/{node}"
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("", _memory, tag=MONITORING, asks=NODE, routes=(
        Route(f"GET {MEMORY}", "Show the memory of the node by use, in bytes: that of messages, and all else."),
    )),
    looking("", _memory_relative, tag=MONITORING, asks=NODE, routes=(
        Route(f"GET {MEMORY}/relative", "Show the memory of the node by use, in percent of what the process has."),
    )),
    looking("", _ets_memory, tag=MONITORING, asks=NODE, routes=(
        Route(f"GET {MEMORY}/ets {MEMORY}/ets/relative {MEMORY}/ets/{{filter}} {MEMORY}/ets/{{filter}}/relative",
              "Show the memory of Erlang's tables: there are none."),
    )),
    looking("", _attempts, tag=MONITORING, asks=NODE, routes=(
        Route(f"GET {ATTEMPTS}", "Show the logins since the start, by protocol: accepted and refused."),
    )),
    looking("", _attempts_by_source, tag=MONITORING, asks=NODE, routes=(
        Route(f"GET {ATTEMPTS}/source", "List logins by address and user: none, for the audit log has them."),
    )),
    looking("", lambda node, request: {"oauth_enabled": False}, tag=MANAGEMENT, asks=NODE, routes=(
        Route("GET /auth", "Return how the console logs in: with a password, never by a redirect to an OAuth "
              "provider."),
    )),
    looking("", lambda node, request: [{"javascript": "dispatcher.js"}], tag=MANAGEMENT, asks=NODE, routes=(
        Route("GET /extensions", "List the extensions of the management plugin: the API itself."),
    )),
    looking("", _feature_flags, asks=NODE, routes=(
        Route("GET /feature-flags", "List the feature flags of RabbitMQ whose features Penstock has."),
    )),
    _unchanged("PUT /feature-flags/{name}/enable", "Enable a feature flag: each that Penstock has is enabled.",
               _enable_feature),
    looking("", _deprecated_features, tag=MONITORING, asks=NODE, routes=(
        Route("GET /deprecated-features", "List the deprecated features of RabbitMQ: those that Penstock does not "
              "have, and those that stay."),
    )),
    looking("", _none, tag=MONITORING, asks=NODE, routes=(
        Route("GET /deprecated-features/used "
              "/stream/connections /stream/connections/{vhost} /stream/consumers /stream/consumers/{vhost} "
              "/stream/publishers /stream/publishers/{vhost} /stream/publishers/{vhost}/{queue}",
              "Return an empty list: there is nothing of this kind.", vhost=ANYWHERE),
    )),
    _unchanged("POST /rebalance/queues", "Rebalance the leaders of queues: those of one node are balanced.",
               lambda node, request: {}),
    _unchanged("POST /vhosts/{vhost}/start/{node}", "Start a virtual host on a node: each that is there is started.",
               _start_vhost, VHOST),
    looking("", _quorum_status, tag=MANAGEMENT, asks=VHOST, routes=(
        Route("GET /queues/quorum/{vhost}/{name}/status", "Show the replicas of a quorum queue: one, which leads.",
              verdict=True),
    )),
    Operation("", _act, ("action",), audited=False, routes=(
        Route(f"POST {ACTIONS}", "Synchronise a queue, or cancel that: it has one replica, so there is nothing to do.",
              needed=("action",), silent=True),
    )),
    *[_refusal(where, sentence) for where, sentence in REFUSED.items()],
)  # fmt: skip
