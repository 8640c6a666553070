"""Answers at RabbitMQ's paths for what one node of Penstock does not have: of a shape that their readers decode.

A client that asks all paths of its server must not fail at one of them. So a path has its real answer, an answer that
is true of one node (its queues are balanced, its metadata store is initialised), or a refusal with a sentence. What is
refused is in `REFUSED`; docs/http.md tells why.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response

from penstock.core.queue.types import QUORUM
from penstock.describe.session import session_in_full
from penstock.describe.table import API_VERSION, Row
from penstock.server.http.login import check_own
from penstock.server.http.objects import connection_of, reading_of
from penstock.server.http.probes import status
from penstock.server.http.request import (
    ApiRequest,
    Handler,
    HttpError,
    bad_request,
    json_response,
    no_content,
    not_found,
)
from penstock.server.process_facts import used_memory

AMQP10: Final = "AMQP 1.0"
"""Protocol of a connection with sessions, as its engine names it."""
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
NOT_OF_PENSTOCK: Final = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other", "quorum_queue_procs"),
    *("quorum_queue_dlx_procs", "stream_queue_procs", "stream_queue_replica_reader_procs"),
    *("stream_queue_coordinator_procs", "plugins", "metadata_store", "metrics", "mgmt_db", "mnesia", "quorum_ets"),
    *("metadata_store_ets", "other_ets", "binary", "msg_index", "code", "atom", "other_system", "allocated_unused"),
    "reserved_unallocated",
)
"""RabbitMQ's names of parts of Erlang's memory, which are 0 here: typed clients need each of them."""
REMOVED: Final = {
    "amqp_address_v1": "AMQP 1.0 address format version 1 is not served: addresses are /queues/... and /exchanges/...",
    "classic_queue_mirroring": "Classic mirrored queues are not served: there is one node",
    "ram_node_type": "RAM nodes are not served: there is one node",
}
"""RabbitMQ's names of deprecated features that Penstock does not have."""
PERMITTED: Final = {
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
    "DELETE /federation-links/vhost/{vhost}/{id}/{node}/restart": "there are no federation links",
    "GET /shovels/vhost/{vhost}/{name}": "there are no shovels",
    "DELETE /shovels/vhost/{vhost}/{name}": "there are no shovels",
    "DELETE /shovels/vhost/{vhost}/{name}/restart": "there are no shovels",
}
"""Methods and a path of RabbitMQ's API that are refused (405), and why."""


def read_only(sentence: str) -> Handler:
    """Return a handler for what cannot be asked for here (405); it says why, or names the place to ask."""

    async def refuse(request: ApiRequest) -> Response:
        """Refuse with 405: this cannot be done here."""
        raise HttpError(405, "method_not_allowed", sentence)

    return refuse


def _check_node(request: ApiRequest) -> None:
    """Check that the path names this node. Raises HttpError (404)."""
    if request.part("node") != request.driver.name:
        raise not_found()


# Features


async def extensions(request: ApiRequest) -> Response:
    """List the extensions of the management plugin: the API itself."""
    return json_response([{"javascript": "dispatcher.js"}])


async def feature_flags(request: ApiRequest) -> Response:
    """List the feature flags of RabbitMQ whose features Penstock has."""
    rows = [
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
    return json_response(rows)


async def enable_feature(request: ApiRequest) -> Response:
    """Enable a feature flag: each that Penstock has is enabled."""
    name = request.part("name")
    if name not in FEATURES:
        raise bad_request(f"the feature flag '{name}' is not supported; there are {', '.join(FEATURES)}")
    return no_content()


async def deprecated_features(request: ApiRequest) -> Response:
    """List the deprecated features of RabbitMQ: those that Penstock does not have, and those that stay."""
    phases = ((REMOVED, "removed", "denied"), (PERMITTED, "permitted_by_default", "permitted"))
    rows = [
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
    return json_response(rows)


async def none(request: ApiRequest) -> Response:
    """Return an empty list: there is nothing of this kind."""
    if "vhost" in request.http_request.path_params:
        request.live_vhost()
    return json_response([])


# The node


async def memory(request: ApiRequest) -> Response:
    """Show the memory of the node by use, in bytes: that of messages, and all else."""
    _check_node(request)
    return json_response({"memory": await _memory(request)})


async def memory_relative(request: ApiRequest) -> Response:
    """Show the memory of the node by use, in percent of what the process has."""
    _check_node(request)
    parts = await _memory(request)
    total = parts.pop("total")
    parts.pop("strategy")
    assert isinstance(total, dict)
    shares = {name: _percent(size, total["rss"]) for name, size in parts.items()}
    return json_response({"memory": {"total": 100, **shares}})


def _percent(part: object, total: int) -> int:
    """Return a share in percent; at least 1 of what there is."""
    assert isinstance(part, int)
    return max(round(100 * part / total), 1) if part > 0 and total > 0 else 0


async def _memory(request: ApiRequest) -> Row:
    used = await asyncio.to_thread(used_memory)
    request.begin_turn()
    gate = request.driver.broker.gates.memory
    messages = 0 if gate is None else min(int(gate.bytes), used)
    return {
        **dict.fromkeys(NOT_OF_PENSTOCK, 0),
        "queue_procs": messages,
        "other_proc": used - messages,
        "total": {"erlang": used, "rss": used, "allocated": used},
        "strategy": "rss",
    }


async def ets_memory(request: ApiRequest) -> Response:
    """Show the memory of Erlang's tables: there are none."""
    _check_node(request)
    return json_response({"ets_tables_memory": "no_tables"})


async def attempts(request: ApiRequest) -> Response:
    """Show the logins since the start, by protocol: accepted and refused."""
    _check_node(request)
    audit = request.driver.audit
    accepted, refused = int(audit.logins_accepted), int(audit.logins_refused)
    row: Row = {
        "protocol": "amqp",
        "auth_attempts": accepted + refused,
        "auth_attempts_succeeded": accepted,
        "auth_attempts_failed": refused,
    }
    return json_response([row])


async def attempts_by_source(request: ApiRequest) -> Response:
    """List logins by address and user: none, for the audit log has them."""
    _check_node(request)
    return json_response([])


async def rebalance(request: ApiRequest) -> Response:
    """Rebalance the leaders of queues: those of one node are balanced."""
    return no_content()


async def start_vhost(request: ApiRequest) -> Response:
    """Start a virtual host on a node: each that is there is started."""
    request.live_vhost()
    if request.part("node") != request.driver.name:
        raise bad_request(f"Unknown node: {request.part('node')}; this one is {request.driver.name}")
    return no_content()


# Quorum queues


async def quorum_status(request: ApiRequest) -> Response:
    """Show the replicas of a quorum queue: one, which leads."""
    queue = request.queue()
    if queue.features.type is not QUORUM:
        return status(f"queue '{queue.name}' is no quorum queue")
    row: Row = {
        "Node Name": request.driver.name,
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
    return json_response([row])


# Sessions of AMQP 1.0


async def sessions(request: ApiRequest) -> Response:
    """List the sessions of a connection over AMQP 1.0; 400 for one of AMQP 0-9-1, which has channels."""
    connection = connection_of(request)
    check_own(request, connection.user)
    if connection.engine.details()["protocol"] != AMQP10:
        raise bad_request("connection does not use AMQP 1.0")
    at = reading_of(request)
    rows = [session_in_full(each, at) for each in connection.engine.sessions()]
    return json_response([{"channel_number": row.get("number"), **row} for row in rows])
