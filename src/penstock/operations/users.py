"""Users: declared, changed, listed and deleted. Passwords come as hashes that the requester has computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.access.password_hash import SHA256, PasswordHash, read_hash
from penstock.access.scram import ScramKeys, read_scram_keys
from penstock.access.tags import ADMINISTRATOR
from penstock.access.user import User
from penstock.describe.table import Row, reading
from penstock.describe.user import USER, user_row
from penstock.errors import BrokerError, ConnectionForced, PreconditionFailed
from penstock.flow.work import Steps
from penstock.log_ids import CHANGED
from penstock.management.control_request import ControlRequest
from penstock.management.operation import Operation, Route, looking
from penstock.operations.listing import rows_steps
from penstock.protocols.common.log_line import LogLine

if TYPE_CHECKING:
    from penstock.management.node import Node

PAGE: Final = 1000
"""Most users of an answer."""
USERS_A_UNIT: Final = 10
"""Users that are looked at for a unit of work."""
DELETION_WORK: Final = 25
"""Units of work per deleted user."""


def declare_user(node: Node, request: ControlRequest) -> Row:
    """Add a user, or change password and tags; with `new` it must not be there. Answer whether it was created."""
    table, name = node.broker.access, request.text("name")
    there = table.find(name)
    if there is not None and request.flag("new"):
        raise PreconditionFailed(f"user '{name}' is there already; `penstock users passwd` and `tags` change it")
    tags = [] if there is None else there.tags
    if "tags" in request.fields:
        tags = request.names("tags", 0)
    hashed = _hash(request) if "password_hash" in request.fields or there is None else there.password_hash
    table.put_user(name, hashed, tags)
    scram = _scram(request)
    if scram is not None:
        table.set_scram(name, scram)
    return {"created": there is None}


def set_password(node: Node, request: ControlRequest) -> Row:
    """Change the password of a user; its connections stay (as in RabbitMQ)."""
    node.broker.access.set_password(request.text("name"), _hash(request), _scram(request))
    return {}


def set_tags(node: Node, request: ControlRequest) -> Row:
    """Change the tags of a user."""
    node.broker.access.set_tags(request.text("name"), request.names("tags", 0))
    return {}


def delete_user(node: Node, request: ControlRequest) -> Row:
    """Delete a user, and close its connections."""
    drop_user(node, request.text("name"))
    return {}


def drop_user(node: Node, name: str) -> None:
    """Delete a user with its permissions; its connections are closed (320).

    Raises NotFound (404); PreconditionFailed (406) for a user of the settings file and the last administrator.
    """
    node.broker.access.delete_user(name)
    close_connections(node, name, None, f"user '{name}' was deleted")
    node.log(LogLine(f"[user({name})] deleted", {"id": CHANGED}))


def close_connections(node: Node, user: str, vhost: str | None, reason: str) -> None:
    """Close the connections of a user: all, or those to one virtual host."""
    for connection in list(node.connections.values()):
        if connection.user != user or not connection.logged_in:
            continue
        if vhost is None or (connection.vhost is not None and connection.vhost.name == vhost):
            connection.close(ConnectionForced(reason))


def replace_file_users(node: Node, users: Iterable[User] | None) -> int:
    """Replace the users of the settings file; connections whose user may not enter any more are closed (320).

    Return the number of closed connections.
    """
    node.broker.access.set_file_users(users)
    closed = 0
    for connection in list(node.connections.values()):
        vhost = connection.vhost
        if vhost is None or connection.access.rules.enters(vhost.name):
            continue
        reason = f"user '{connection.user}' may not use vhost '{vhost.name}' any more: the settings file has changed"
        connection.close(ConnectionForced(reason))
        closed += 1
    return closed


def _delete_users(node: Node, request: ControlRequest) -> Steps[Row]:
    """Delete users; names that are not there are passed over (as in RabbitMQ).

    One that may not be deleted does not keep the others: the error names the first, and says how many are deleted.
    """
    names = request.fields.get("users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PreconditionFailed("'users' must be a list of names")
    refused: list[BrokerError] = []
    deleted: list[Row] = []
    for name in names:
        there = node.broker.access.find(name)
        if there is None:
            continue
        before = user_row(there)
        try:
            drop_user(node, name)
            deleted.append(before)
        except BrokerError as error:
            refused.append(error)
        node.broker.work.done += DELETION_WORK
        if node.broker.work.used_up():
            yield
    request.before = deleted
    if refused:
        more = f", and {len(refused) - 1} more are refused" if len(refused) > 1 else ""
        raise PreconditionFailed(f"{refused[0]}{more}; {len(deleted)} others are deleted")
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


def _rows(node: Node, request: ControlRequest) -> Steps[list[Row]]:
    at = reading(node)
    return rows_steps(node, node.broker.access.users(), lambda user: USER.row(user, at))


def _rows_without_permissions(node: Node, request: ControlRequest) -> Steps[list[Row]]:
    at = reading(node)
    found = [user for user in node.broker.access.users() if not user.permissions and not user.everywhere]
    return rows_steps(node, found, lambda user: USER.row(user, at))


def asked_users(node: Node, request: ControlRequest) -> list[User]:
    """Return the user that a request names, or all. Raises NotFound (404)."""
    if "user" in request.fields:
        return [node.broker.access.user(request.text("user"))]
    return node.broker.access.users()


def _before(node: Node, request: ControlRequest) -> Row | None:
    found = node.broker.access.find(request.text("name"))
    return None if found is None else user_row(found)


def _hash(request: ControlRequest) -> PasswordHash | None:
    """Return the hash of a request; None without one: no login with a password."""
    if request.fields.get("password_hash") is None:
        return None
    return read_hash(request.text("password_hash"), request.text("hashing_algorithm", SHA256))


def _scram(request: ControlRequest) -> ScramKeys | None:
    return read_scram_keys(request.text("scram_secret")) if "scram_secret" in request.fields else None


def _by_path(fields: Row) -> Row:
    """Return the fields of a request whose path names the user: tags are a list, or a text with commas."""
    found: Row = {**fields, "name": fields.pop("user")}
    tags = fields.get("tags")
    if isinstance(tags, str):
        found["tags"] = [tag for tag in (each.strip() for each in tags.split(",")) if tag]
    elif "tags" in fields and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise PreconditionFailed("'tags' must be a list of strings, or a string with commas")
    if found.setdefault("password_hash", "") is None:
        raise PreconditionFailed("'password_hash' must be a string, not null")
    return found


_PASSWORD: Final = ("name", "password_hash", "hashing_algorithm", "scram_secret")
OPERATIONS: Final = (
    Operation("user.declare", declare_user, (*_PASSWORD, "tags", "new"), before=_before, routes=(
        Route("PUT /users/{user}", "Add a user, or change its password and tags: 201 if it is new, 204 if it was "
              "there.", needed=("tags",), read=_by_path, silent=True),
    )),
    Operation("user.password", set_password, _PASSWORD, before=_before),
    Operation("user.tags", set_tags, ("name", "tags"), before=_before),
    Operation("user.delete", delete_user, ("name",), before=_before, routes=(
        Route("DELETE /users/{user}", "Delete a user, and close its connections.", read=_by_path, silent=True),
    )),
    Operation("", _delete_users, ("users",), routes=(
        Route("POST /users/bulk-delete", "Delete users; names that are not there are passed over (as in RabbitMQ).",
              needed=("users",), silent=True),
    )),
    looking("user.list", list_users, ("after", "count", "user"), tag=ADMINISTRATOR),
    looking("", _rows, tag=ADMINISTRATOR, routes=(Route("GET /users", "List users."),)),
    looking("", _rows_without_permissions, tag=ADMINISTRATOR, routes=(
        Route("GET /users/without-permissions", "List the users who may enter no virtual host."),
    )),
)  # fmt: skip
