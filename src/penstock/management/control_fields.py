"""Fields of the control operations: a request has no others, so a misspelt one is refused and not passed over."""

from __future__ import annotations

from typing import Final

from penstock.core.gates import operator
from penstock.errors import PreconditionFailed
from penstock.management import why
from penstock.settings.table import SCOPES
from penstock.texts import nearest

_HOLDER: Final = ("cursor", "token")
_BATCH: Final = ("query", "batch", "run", "write", "exchange", "routing_key", "delivery")
_PASSWORD: Final = ("name", "password_hash", "hashing_algorithm", "scram_secret")
_TOPIC: Final = ("user", "vhost", "exchange")

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "cursor.attach": (
        *_HOLDER, "queues", "starting", "partial", "holder", "create", "dry_run", "release", "identity", "takeover",
    ),
    "cursor.plan": (
        *_HOLDER, "settle", "start", "upto", "rows", "bytes", "least", "wait_ms", "left_out", "identity", "query",
    ),
    "cursor.range": (*_HOLDER, "lease", "queue", "lo", "hi", "rows", "bytes", "columns", "query"),
    "cursor.settle": (*_HOLDER, "end"),
    "cursor.show": ("cursor",),
    "cursor.move": ("cursor", "queues", "to", "dry_run", "force"),
    "cursor.delete": ("cursor",),
    "cursor.release": ("cursor", "queues"),
    "cursor.find": ("queues", "timestamp"),
    "cursor.queues": (),
    "lease.open": ("cursor", "queues", "partial", "timeout_ms", "left_out"),
    "lease.close": ("lease",),
    "query.progress": ("query", "batch", "rows", "batch_ms"),
    "sink.begin": (*_BATCH, "partition", "attempt"),
    "sink.commit": (*_BATCH, "partitions", "wait_ms"),  # How long the driver waits: for its own connection only.
    "sink.abort": _BATCH,
    "sink.assign": ("query", "user"),
    "sink.waiting": ("application", "task", "cores", "queue"),
    "list": ("kind", "after", "count", "everywhere"),
    "show": tuple(SCOPES),
    "why": why.SUBJECTS,
    "watch": ("after", "queue"),
    "settings.list": (),
    "status": (),
    "top": ("order", "count", "prefix", "queue", "everywhere", "history"),
    "connection.close": ("connection", "reason"),
    "block": (*operator.SCOPES, "reason"),
    "unblock": operator.SCOPES,
    "settings.set": ("scope", "pattern", "settings", "override"),
    "settings.unset": ("scope", "pattern", "names"),
    "policy.list": ("operator", "everywhere"),
    "policy.set": ("name", "pattern", "definition", "priority", "apply-to", "operator"),
    "policy.clear": ("name", "operator"),
    "parameter.list": ("everywhere",),
    "user.list": ("after", "count", "user"),
    "user.declare": (*_PASSWORD, "tags", "new"),
    "user.password": _PASSWORD,
    "user.tags": ("name", "tags"),
    "user.delete": ("name",),
    "permission.set": ("user", "vhost", "configure", "write", "read"),
    "permission.clear": ("user", "vhost"),
    "topic-permission.set": (*_TOPIC, "write", "read"),
    "topic-permission.clear": _TOPIC,
    "limit.list": (),
    "limit.set": ("user", "vhost", "limits"),
    "tls.reload": (),
    "config.show": (),
    "definitions.export": ("section", "after", "count", "everywhere", "for_rabbitmq"),
    "definitions.import": ("definitions", "everywhere", "dry_run", "skip", "skip_refused", "streams_as_queues"),
    "vhost.declare": ("name",),
    "vhost.delete": ("name",),
    "publish.withdraw": ("channel", "number"),
    "producer.begin": ("channel", "producer", "lane", "epoch", "window", "named"),
}  # fmt: skip
"""All but `publish.block`, whose header has a table of its own (`incoming_block`)."""


def check_fields(operation: str, fields: dict[str, object]) -> None:
    """Raise PreconditionFailed (406) for a field that an operation does not have."""
    known = FIELDS[operation]
    for name in fields:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean '{near}'?" if near else f"known are {', '.join(known) or 'none'}"
            raise PreconditionFailed(f"'{operation}' has no field '{name:.100}'; {hint}")
