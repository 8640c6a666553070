"""Operations and what each of them needs: the table that docs/security.md shows and that tests go through, row by row.

A need of a permission is a kind (configure, write or read) and an object. It is checked where the operation is carried
out (protocols/common/authorization.py). A need of a tag is checked before, by this table. The rules are those of
RabbitMQ 4 (its guides "Access control", "Topic authorisation" and "Management"), and so are the paths of HTTP.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.access.tags import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER

NOTHING: Final[tuple[str, ...]] = ()
"""Needs of an operation that every user of the virtual host may do."""

_DECLARE_QUEUE: Final = ("configure queue",)
_DECLARE_WITH_DEAD_LETTERS: Final = ("configure queue", "read queue", "write dead-letter exchange")
_DECLARE_EXCHANGE: Final = ("configure exchange",)
_DECLARE_WITH_ALTERNATE: Final = ("configure exchange", "read exchange", "write alternate exchange")
_BIND_QUEUE: Final = ("write queue", "read exchange", "read topic")
_BIND_EXCHANGE: Final = ("write destination", "read exchange", "read topic")
_PUBLISH: Final = ("write exchange", "write topic")
_READ_QUEUE: Final = ("read queue",)

AMQP_0_9_1: Final[dict[str, tuple[str, ...]]] = {
    "connection.open": ("a permission in the virtual host",),
    "connection.update-secret": NOTHING,
    "channel.open": NOTHING,
    "channel.close": NOTHING,
    "channel.flow": NOTHING,
    "channel.flow-ok": NOTHING,
    "access.request": NOTHING,
    "exchange.declare": _DECLARE_EXCHANGE,
    "exchange.declare, passive": NOTHING,
    "exchange.declare, new with alternate-exchange": _DECLARE_WITH_ALTERNATE,
    "exchange.delete": ("configure exchange",),
    "exchange.bind": _BIND_EXCHANGE,
    "exchange.unbind": _BIND_EXCHANGE,
    "queue.declare": _DECLARE_QUEUE,
    "queue.declare, passive": NOTHING,
    "queue.declare, new with x-dead-letter-exchange": _DECLARE_WITH_DEAD_LETTERS,
    "queue.bind": _BIND_QUEUE,
    "queue.unbind": _BIND_QUEUE,
    "queue.purge": _READ_QUEUE,
    "queue.delete": ("configure queue",),
    "basic.qos": NOTHING,
    "basic.publish": _PUBLISH,
    "basic.publish, with CC or BCC": ("write exchange", "write topic", "write topic of each copy"),
    "basic.consume": _READ_QUEUE,
    "basic.consume, amq.rabbitmq.reply-to": NOTHING,
    "basic.cancel": NOTHING,
    "basic.get": _READ_QUEUE,
    "basic.ack": NOTHING,
    "basic.nack": NOTHING,
    "basic.reject": NOTHING,
    "basic.recover": NOTHING,
    "basic.recover-async": NOTHING,
    "confirm.select": NOTHING,
    "tx.select": NOTHING,
    "tx.commit": NOTHING,
    "tx.rollback": NOTHING,
}
"""Methods of AMQP 0-9-1, with the cases of one method that need something else.

The default exchange is `amq.default` in permissions. Routing keys count for exchanges of the type topic only.
"""

AMQP_1_0: Final[dict[str, tuple[str, ...]]] = {
    "open": ("a permission in the virtual host",),
    "attach, target /queues/:queue": ("write default exchange",),
    "attach, target /exchanges/:exchange": ("write exchange",),
    "attach, target /exchanges/:exchange/:key": _PUBLISH,
    "attach, target null": NOTHING,
    "attach, target /management": NOTHING,
    "attach, target dynamic": ("configure queue", "write default exchange"),
    "attach, target coordinator": NOTHING,
    "attach, source /queues/:queue": _READ_QUEUE,
    "attach, source /exchanges/:exchange": ("configure queue", *_BIND_QUEUE, "read queue"),
    "attach, source dynamic": ("configure queue", "read queue"),
    "attach, source null": ("configure queue", "read queue"),
    "attach, source /management": NOTHING,
    "transfer, target /exchanges/:exchange": _PUBLISH,
    "transfer, target null": _PUBLISH,
    "GET /queues/:queue": NOTHING,
    "PUT /queues/:queue": _DECLARE_QUEUE,
    "PUT /queues/:queue, new with x-dead-letter-exchange": _DECLARE_WITH_DEAD_LETTERS,
    "DELETE /queues/:queue": ("configure queue",),
    "DELETE /queues/:queue/messages": _READ_QUEUE,
    "PUT /exchanges/:exchange": _DECLARE_EXCHANGE,
    "PUT /exchanges/:exchange, new with alternate-exchange": _DECLARE_WITH_ALTERNATE,
    "DELETE /exchanges/:exchange": ("configure exchange",),
    "GET /bindings": NOTHING,
    "POST /bindings": _BIND_QUEUE,
    "DELETE /bindings/:binding": _BIND_QUEUE,
    "PUT /auth/tokens": NOTHING,
}
"""Links of AMQP 1.0 and requests to its management node. A queue that an attach creates is declared: configure."""


class ControlNeed(NamedTuple):
    """Need of a control operation."""

    tag: str = ""
    """Tag; "" for none."""
    permissions: tuple[str, ...] = ()


CONTROL: Final[dict[str, ControlNeed]] = {
    "cursor.attach": ControlNeed(permissions=_READ_QUEUE),
    "cursor.plan": ControlNeed(permissions=_READ_QUEUE),
    "cursor.range": ControlNeed(permissions=_READ_QUEUE),
    "cursor.settle": ControlNeed(permissions=_READ_QUEUE),
    "cursor.show": ControlNeed(permissions=_READ_QUEUE),
    "cursor.move": ControlNeed(permissions=_READ_QUEUE),
    "cursor.delete": ControlNeed(permissions=_READ_QUEUE),
    "cursor.release": ControlNeed(permissions=_READ_QUEUE),
    "cursor.find": ControlNeed(permissions=_READ_QUEUE),
    "cursor.queues": ControlNeed(permissions=("read queue, for each that is told",)),
    "lease.open": ControlNeed(permissions=_READ_QUEUE),
    "lease.close": ControlNeed(permissions=_READ_QUEUE),
    "query.progress": ControlNeed(permissions=("read queue, for each cursor that is told",)),
    "publish.block": ControlNeed(permissions=_PUBLISH),
    "producer.begin": ControlNeed(),
    "publish.withdraw": ControlNeed(),
    "sink.begin": ControlNeed(permissions=_PUBLISH),
    "sink.commit": ControlNeed(permissions=_PUBLISH),
    "sink.abort": ControlNeed(permissions=_PUBLISH),
    "sink.assign": ControlNeed(POLICYMAKER),
    "sink.waiting": ControlNeed(permissions=("read queue, or write exchange",)),
    "list": ControlNeed(MANAGEMENT),
    "show": ControlNeed(MANAGEMENT),
    "why": ControlNeed(MANAGEMENT),
    "watch": ControlNeed(MONITORING),
    "settings.list": ControlNeed(MANAGEMENT),
    "status": ControlNeed(MONITORING),
    "top": ControlNeed(MONITORING),
    "connection.close": ControlNeed(MANAGEMENT),
    "block": ControlNeed(POLICYMAKER),
    "unblock": ControlNeed(POLICYMAKER),
    "settings.set": ControlNeed(POLICYMAKER),
    "settings.unset": ControlNeed(POLICYMAKER),
    "policy.list": ControlNeed(MANAGEMENT),
    "policy.set": ControlNeed(POLICYMAKER),
    "policy.clear": ControlNeed(POLICYMAKER),
    "parameter.list": ControlNeed(POLICYMAKER),
    **dict.fromkeys(
        (
            "user.list", "user.declare", "user.password", "user.tags", "user.delete", "permission.set",
            "permission.clear", "topic-permission.set", "topic-permission.clear", "limit.list", "limit.set",
            "tls.reload",
        ),
        ControlNeed(ADMINISTRATOR),
    ),
    "config.show": ControlNeed(ADMINISTRATOR),
    "definitions.export": ControlNeed(ADMINISTRATOR),
    "definitions.import": ControlNeed(ADMINISTRATOR),
    "vhost.declare": ControlNeed(ADMINISTRATOR),
    "vhost.delete": ControlNeed(ADMINISTRATOR),
}  # fmt: skip
"""Control operations; one that is missing here needs the tag administrator."""
NEEDS_MOST: Final = ControlNeed(ADMINISTRATOR)


def control_need(operation: str) -> ControlNeed:
    """Return the need of a control operation: the tag administrator, if it states none."""
    return CONTROL.get(operation, NEEDS_MOST)


ANYWHERE: Final = ""
"""The virtual host of a path does not matter, or it has none."""
ENTERED: Final = "a permission in the virtual host"
"""The user may open the virtual host, or is an administrator."""
SEEN: Final = "a permission in the virtual host, or the tag monitoring"


class HttpNeed(NamedTuple):
    """Need of a path of the HTTP API and a method."""

    tag: str
    vhost: str = ANYWHERE
    permissions: tuple[str, ...] = ()


_MANAGED: Final = HttpNeed(MANAGEMENT)
_ENTERED: Final = HttpNeed(MANAGEMENT, ENTERED)
_MONITORED: Final = HttpNeed(MONITORING)
_POLICIES: Final = HttpNeed(POLICYMAKER)
_POLICIES_ENTERED: Final = HttpNeed(POLICYMAKER, ENTERED)
_ADMINISTERED: Final = HttpNeed(ADMINISTRATOR)
_CHANGED_BY_ADMINISTRATORS: Final = {"PUT": _ADMINISTERED, "DELETE": _ADMINISTERED}
_BY_ADMINISTRATORS: Final = {"GET": _ADMINISTERED, **_CHANGED_BY_ADMINISTRATORS}
_CONNECTION: Final = HttpNeed(MANAGEMENT, permissions=("own connection, or the tag monitoring",))
_CLOSING: Final = HttpNeed(MANAGEMENT, permissions=("own connection, or the tag administrator",))
_BINDING: Final = "/bindings/{vhost}/e/{source}/{kind}/{destination}"


def _own(*permissions: str) -> HttpNeed:
    """Return the need of what a user could do over AMQP too, with these permissions."""
    return HttpNeed(MANAGEMENT, ENTERED, permissions)


HTTP: Final[dict[str, dict[str, HttpNeed]]] = {
    "/overview": {"GET": _MANAGED},
    "/cluster-name": {"GET": _MANAGED, "POST": _ADMINISTERED, **_CHANGED_BY_ADMINISTRATORS},
    "/nodes": {"GET": _MONITORED},
    "/nodes/{name}": {"GET": _MONITORED},
    "/extensions": {"GET": _MANAGED},
    "/feature-flags": {"GET": _ADMINISTERED},
    "/deprecated-features": {"GET": _MONITORED},
    "/deprecated-features/used": {"GET": _MONITORED},
    "/auth": {"GET": _MANAGED},
    "/version": {"GET": _MANAGED},
    "/whoami": {"GET": _MANAGED},
    "/users": {"GET": _ADMINISTERED},
    "/users/bulk-delete": {"POST": _ADMINISTERED},
    "/users/without-permissions": {"GET": _ADMINISTERED},
    "/users/{user}": _BY_ADMINISTRATORS,
    "/auth/hash_password/{password}": {"GET": _ADMINISTERED},
    "/users/{user}/permissions": {"GET": _ADMINISTERED},
    "/users/{user}/topic-permissions": {"GET": _ADMINISTERED},
    "/permissions": {"GET": _ADMINISTERED},
    "/permissions/{vhost}/{user}": _BY_ADMINISTRATORS,
    "/topic-permissions": {"GET": _ADMINISTERED},
    "/topic-permissions/{vhost}/{user}": _BY_ADMINISTRATORS,
    "/vhosts": {"GET": _MANAGED},
    "/vhosts/{vhost}": _BY_ADMINISTRATORS,
    "/vhosts/{vhost}/permissions": {"GET": _ADMINISTERED},
    "/vhosts/{vhost}/topic-permissions": {"GET": _ADMINISTERED},
    "/vhosts/{vhost}/connections": {"GET": _ENTERED},
    "/vhosts/{vhost}/channels": {"GET": _ENTERED},
    "/definitions": {"GET": _ADMINISTERED, "POST": _ADMINISTERED},
    "/definitions/{vhost}": {"GET": _ADMINISTERED, "POST": _ADMINISTERED},
    "/connections": {"GET": _MANAGED},
    "/connections/{name}": {"GET": _CONNECTION, "DELETE": _CLOSING},
    "/connections/{name}/channels": {"GET": _CONNECTION},
    "/connections/username/{user}": {"GET": _CONNECTION, "DELETE": _CLOSING},
    "/channels": {"GET": _MANAGED},
    "/channels/{name}": {"GET": _CONNECTION},
    "/consumers": {"GET": _MANAGED},
    "/consumers/{vhost}": {"GET": _MANAGED},
    "/queues": {"GET": _MANAGED},
    "/queues/detailed": {"GET": _MANAGED},
    "/queues/{vhost}": {"GET": _ENTERED},
    "/queues/{vhost}/{name}": {
        "GET": _ENTERED, "PUT": _own(*_DECLARE_QUEUE), "DELETE": _own("configure queue"),
    },
    "/queues/{vhost}/{name}/bindings": {"GET": _ENTERED},
    "/queues/{vhost}/{name}/contents": {"DELETE": _own(*_READ_QUEUE)},
    "/queues/{vhost}/{name}/get": {"POST": _own(*_READ_QUEUE)},
    "/queues/{vhost}/{name}/actions": {"POST": _ADMINISTERED},
    "/exchanges": {"GET": _MANAGED},
    "/exchanges/{vhost}": {"GET": _ENTERED},
    "/exchanges/{vhost}/{name}": {
        "GET": _ENTERED, "PUT": _own(*_DECLARE_EXCHANGE), "DELETE": _own("configure exchange"),
    },
    "/exchanges/{vhost}/{name}/bindings/source": {"GET": _ENTERED},
    "/exchanges/{vhost}/{name}/bindings/destination": {"GET": _ENTERED},
    "/exchanges/{vhost}/{name}/publish": {"POST": _own(*_PUBLISH)},
    "/bindings": {"GET": _MANAGED},
    "/bindings/{vhost}": {"GET": _ENTERED},
    _BINDING: {"GET": _ENTERED, "POST": _own(*_BIND_QUEUE)},
    _BINDING + "/{key}": {"GET": _ENTERED, "DELETE": _own(*_BIND_QUEUE)},
    "/policies": {"GET": _MANAGED},
    "/policies/{vhost}": {"GET": _ENTERED},
    "/policies/{vhost}/{name}": {
        "GET": _POLICIES_ENTERED, "PUT": _POLICIES_ENTERED, "DELETE": _POLICIES_ENTERED,
    },
    "/operator-policies": {"GET": _MANAGED},
    "/operator-policies/{vhost}": {"GET": _ENTERED},
    "/operator-policies/{vhost}/{name}": {"GET": _ENTERED, **_CHANGED_BY_ADMINISTRATORS},
    "/parameters": {"GET": _POLICIES},
    "/parameters/{component}": {"GET": _POLICIES},
    "/parameters/{component}/{vhost}": {"GET": _POLICIES_ENTERED},
    "/parameters/{component}/{vhost}/{name}": {
        "GET": _POLICIES_ENTERED, "PUT": _POLICIES_ENTERED, "DELETE": _POLICIES_ENTERED,
    },
    "/global-parameters": {"GET": _POLICIES},
    "/global-parameters/{name}": {"GET": _POLICIES, "PUT": _POLICIES, "DELETE": _POLICIES},
    "/vhost-limits": {"GET": _MANAGED},
    "/vhost-limits/{vhost}": {"GET": HttpNeed(MANAGEMENT, SEEN)},
    "/vhost-limits/{vhost}/{name}": _CHANGED_BY_ADMINISTRATORS,
    "/user-limits": {"GET": _MANAGED},
    "/user-limits/{user}": {"GET": _MANAGED},
    "/user-limits/{user}/{name}": _CHANGED_BY_ADMINISTRATORS,
    "/aliveness-test/{vhost}": {"GET": _ENTERED},
    "/healthchecks/node": {"GET": _MANAGED},
    "/health/checks/alarms": {"GET": _MANAGED},
    "/health/checks/local-alarms": {"GET": _MANAGED},
    "/health/checks/certificate-expiration/{within}/{unit}": {"GET": _MANAGED},
    "/health/checks/port-listener/{port}": {"GET": _MANAGED},
    "/health/checks/protocol-listener/{protocol}": {"GET": _MANAGED},
    "/health/checks/virtual-hosts": {"GET": _MANAGED},
    "/health/checks/ready": {"GET": _MANAGED},
    "/health/checks/ready-to-serve-clients": {"GET": _MANAGED},
    "/health/checks/is-in-service": {"GET": _MANAGED},
    "/health/checks/below-node-connection-limit": {"GET": _MANAGED},
    "/health/checks/node-is-quorum-critical": {"GET": _MANAGED},
    "/health/checks/node-is-mirror-sync-critical": {"GET": _MANAGED},
    "/metrics": {"GET": _MONITORED},
    "/metrics/per-object": {"GET": _MONITORED},
    "/metrics/detailed": {"GET": _MONITORED},
    "/penstock/why": {"GET": _MANAGED},
    "/penstock/events": {"GET": _MONITORED},
    "/penstock/history": {"GET": _MONITORED},
    "/penstock/history/{vhost}": {"GET": _ENTERED},
    "/penstock/history/{vhost}/{name}": {"GET": _ENTERED},
    "/penstock/block": {"POST": _POLICIES},
    "/penstock/unblock": {"POST": _POLICIES},
    "/penstock/settings": {"GET": _MANAGED, "PUT": _POLICIES, "DELETE": _POLICIES},
    "/penstock/settings/preview": {"POST": _POLICIES},
    "/penstock/cursors": {"GET": _MANAGED},
    "/penstock/cursors/{vhost}": {"GET": _ENTERED},
    "/penstock/cursors/{vhost}/{name}": {"GET": _own(*_READ_QUEUE), "DELETE": _own(*_READ_QUEUE)},
    "/penstock/cursors/{vhost}/{name}/move": {"POST": _own(*_READ_QUEUE)},
}  # fmt: skip
"""Paths below /api, and those of metrics; a path or method that is missing here needs the tag administrator."""
_NEEDS_ADMINISTRATOR: Final = _ADMINISTERED


def http_need(path: str, method: str) -> HttpNeed:
    """Return the need of a path and a method: the tag administrator, if none is stated."""
    return HTTP.get(path, {}).get(method, _NEEDS_ADMINISTRATOR)
