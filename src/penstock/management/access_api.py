"""Control operations on users, permissions and limits. Passwords come as hashes: the requester has computed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.access.password_hash import SHA256, PasswordHash, read_hash
from penstock.access.permission import Permission, TopicPermission
from penstock.access.scram import ScramKeys, read_scram_keys
from penstock.access.user import User
from penstock.describe.table import Row
from penstock.describe.user import permission_row, topic_row, user_row
from penstock.errors import PreconditionFailed
from penstock.management import access_admin
from penstock.management.control_request import ControlRequest

if TYPE_CHECKING:
    from penstock.management.node import Node

PAGE: Final = 1000
"""Most users of an answer."""
USERS_A_UNIT: Final = 10
"""Users that are looked at for a unit of work."""


def operations(node: Node) -> dict[str, Callable[[ControlRequest], Row | None]]:
    """Return the operations by name."""
    return {
        "user.declare": lambda request: declare_user(node, request),
        "user.password": lambda request: set_password(node, request),
        "user.tags": lambda request: set_tags(node, request),
        "user.delete": lambda request: delete_user(node, request),
        "user.list": lambda request: list_users(node, request),
        "permission.set": lambda request: set_permission(node, request),
        "permission.clear": lambda request: clear_permission(node, request),
        "topic-permission.set": lambda request: set_topic_permission(node, request),
        "topic-permission.clear": lambda request: clear_topic_permission(node, request),
        "limit.set": lambda request: set_limits(node, request),
        "limit.list": lambda request: list_limits(node, request),
    }


def declare_user(node: Node, request: ControlRequest) -> Row:
    """Add a user, or change password and tags; with `new` it must not be there. Answer whether it was created."""
    table, name = node.broker.access, request.text("name")
    there = table.find(name)
    if there is not None and request.flag("new"):
        raise PreconditionFailed(f"user '{name}' is there already; `penstock users passwd` and `tags` change it")
    tags = [] if there is None else there.tags
    if "tags" in request.fields:
        tags = request.names("tags", 0)
    request.before = None if there is None else {"tags": there.tags}
    hashed = _hash(request) if "password_hash" in request.fields or there is None else there.password_hash
    table.put_user(name, hashed, tags)
    scram = _scram(request)
    if scram is not None:
        table.set_scram(name, scram)
    return {"created": there is None}


def set_password(node: Node, request: ControlRequest) -> Row:
    """Change the password of a user; its connections stay (as in RabbitMQ)."""
    name = request.text("name")
    request.before = has_password(node.broker.access.user(name))
    node.broker.access.set_password(name, _hash(request), _scram(request))
    return {}


def set_tags(node: Node, request: ControlRequest) -> Row:
    """Change the tags of a user."""
    name = request.text("name")
    request.before = {"tags": node.broker.access.user(name).tags}
    node.broker.access.set_tags(name, request.names("tags", 0))
    return {}


def delete_user(node: Node, request: ControlRequest) -> Row:
    """Delete a user, and close its connections."""
    name = request.text("name")
    request.before = user_row(node.broker.access.user(name))
    access_admin.delete_user(node, name)
    return {}


def list_users(node: Node, request: ControlRequest) -> Row:
    """Answer users with permissions and limits, in the order of their names: up to `count` after the name `after`."""
    after, count = str(request.fields.get("after") or ""), min(request.amount("count", PAGE), PAGE)
    only = request.fields.get("user")
    names = [node.broker.access.user(only).name] if isinstance(only, str) else sorted(node.broker.access.names())
    node.broker.work.done += len(names) // USERS_A_UNIT
    later = [name for name in names if name > after]
    shown = [user_row(node.broker.access.user(name)) for name in later[:count]]
    return {"users": shown, "more": len(later) > count}


def has_password(user: User) -> Row:
    """Return whether a user has a password, for the audit log."""
    return {"password": user.password_hash is not None}


def permission_view(user: User, vhost: str) -> Row | None:
    """Return the permission of a user in a virtual host, for the audit log; None without one."""
    found = user.permission(vhost)
    return None if found is None else permission_row(found)


def topics_view(user: User, vhost: str, exchange: str | None = None) -> Row | None:
    """Return the topic permissions of a user for an exchange, or for all of them, for the audit log; None for none."""
    topics = user.topic_permissions.get(vhost, {})
    return {name: topic_row(each) for name, each in topics.items() if exchange is None or name == exchange} or None


def set_permission(node: Node, request: ControlRequest) -> Row:
    """Set the permission of a user in a virtual host."""
    name, vhost = request.text("user"), request.text("vhost")
    request.before = permission_view(node.broker.access.user(name), vhost)
    permission = Permission(request.text("configure"), request.text("write"), request.text("read"))
    node.broker.access.set_permission(name, vhost, permission)
    return {}


def clear_permission(node: Node, request: ControlRequest) -> Row:
    """Remove the permission of a user in a virtual host, and close its connections there."""
    name, vhost = request.text("user"), request.text("vhost")
    request.before = permission_view(node.broker.access.user(name), vhost)
    return {"cleared": access_admin.clear_permission(node, name, vhost)}


def set_topic_permission(node: Node, request: ControlRequest) -> Row:
    """Set the topic permission of a user for an exchange."""
    name, vhost, exchange = request.text("user"), request.text("vhost"), request.text("exchange")
    request.before = topics_view(node.broker.access.user(name), vhost, exchange)
    permission = TopicPermission(request.text("write"), request.text("read"))
    node.broker.access.set_topic_permission(name, vhost, exchange, permission)
    return {}


def clear_topic_permission(node: Node, request: ControlRequest) -> Row:
    """Remove the topic permission of a user for an exchange, or all in a virtual host."""
    exchange = request.text("exchange") if "exchange" in request.fields else None
    table, name, vhost = node.broker.access, request.text("user"), request.text("vhost")
    request.before = topics_view(table.user(name), vhost, exchange)
    return {"cleared": table.clear_topic_permissions(name, vhost, exchange)}


def set_limits(node: Node, request: ControlRequest) -> Row:
    """Set limits of a user or of a virtual host; a negative value removes one."""
    given = request.fields.get("limits")
    if not isinstance(given, dict) or not all(_is_number(value) for value in given.values()):
        raise PreconditionFailed("'limits' must be an object of names and numbers")
    table = node.broker.access
    if ("user" in request.fields) == ("vhost" in request.fields):
        raise PreconditionFailed("name either a user or a vhost")
    if "user" in request.fields:
        name = request.text("user")
        request.before = dict(table.user(name).limits)
        table.set_user_limits(name, given)
    else:
        vhost = request.text("vhost")
        request.before = dict(table.vhost_limits.get(vhost, {}))
        table.set_vhost_limits(vhost, given)
    return {}


def list_limits(node: Node, request: ControlRequest) -> Row:
    """Answer all limits of users and virtual hosts."""
    table = node.broker.access
    users = table.users()
    node.broker.work.done += len(users) // USERS_A_UNIT
    return {
        "users": {user.name: dict(user.limits) for user in users if user.limits},
        "vhosts": {vhost: dict(limits) for vhost, limits in table.vhost_limits.items()},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _hash(request: ControlRequest) -> PasswordHash | None:
    """Return the hash of a request; None without one: no login with a password."""
    if request.fields.get("password_hash") is None:
        return None
    algorithm = request.text("hashing_algorithm") if "hashing_algorithm" in request.fields else SHA256
    return read_hash(request.text("password_hash"), algorithm)


def _scram(request: ControlRequest) -> ScramKeys | None:
    return read_scram_keys(request.text("scram_secret")) if "scram_secret" in request.fields else None
