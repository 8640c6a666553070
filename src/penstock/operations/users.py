"""Users: declared, changed, listed and deleted. Requests contain hashes of passwords, computed by the requester."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from penstock.access.access_table import check_last, check_tags, check_user_name
from penstock.access.password_hash import (
    PLAIN,
    RABBITMQ_SALT,
    SCRYPT,
    SHA256,
    PasswordHash,
    ScramKeys,
    rabbitmq_hash,
    read_hash,
    read_scram_keys,
)
from penstock.access.permission import ADMINISTRATOR
from penstock.access.user import FILE, USER_LIMITS, User
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.connections.log_line import LogLine
from penstock.core.gates.operator import USER as OF_USER
from penstock.describe.list_kinds import Groups, ListKind
from penstock.describe.message_stats import tally_stats
from penstock.describe.table import Row
from penstock.describe.vhost import USER, held_by_operator, user_row
from penstock.errors import BrokerError, ConnectionForced, PreconditionFailed
from penstock.flow.work import Steps
from penstock.logs.ids import CHANGED
from penstock.management.node import Node
from penstock.management.operation import CATALOGUE, Operation, Route, looking
from penstock.operations.definitions_kinds import Definitions, Planned, Undo
from penstock.operations.definitions_parser import OWN_HASH, Entry, Section
from penstock.operations.lists import listing, sampled, showing
from penstock.settings.kind import INTEGER
from penstock.texts import counted

IN_FILE: Final = "it is in the settings file, [users], which counts; this entry is left out"
PAGE: Final = 1000
"""Most users of an answer."""
USERS_A_UNIT: Final = 10
"""Users that are looked at for a unit of work."""
DELETION_WORK: Final = 25
"""Units of work per deleted user."""


def declare_user(node: Node, request: ControlRequest) -> Row:
    """Add a user, or change password and tags; with `new` the user must not exist. Answer whether it was created."""
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
    """Change the password of a user; open connections stay (as in RabbitMQ)."""
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
    """Delete a user with its permissions, close its connections (320), and pause its bridges.

    Raises NotFound (404); PreconditionFailed (406) for a user of the settings file and the last administrator.
    """
    node.broker.access.delete_user(name)
    close_connections(node, name, None, f"user '{name}' was deleted")
    paused = node.bridges.pause_all_of(name)
    told = f"; {counted(paused, 'bridge')} paused" if paused else ""
    node.log(LogLine(f"[user({name})] deleted{told}", {"id": CHANGED}))


def close_connections(node: Node, user: str, vhost: str | None, reason: str) -> None:
    """Close the connections of a user: all, or the connections to one virtual host."""
    for connection in list(node.connections.values()):
        if connection.user != user or not connection.logged_in:
            continue
        if vhost is None or (connection.vhost is not None and connection.vhost.name == vhost):
            connection.close(ConnectionForced(reason))


def replace_file_users(node: Node, users: Iterable[User] | None) -> int:
    """Replace the users of the settings file; connections of users without access any more are closed (320).

    Return the number of closed connections.
    """
    node.broker.access.set_file_users(users)
    return close_barred(node, "the settings file has changed")


def barred(node: Node) -> list[Connection]:
    """Return the connections of users who may not use their virtual host any more."""
    return [
        each for each in node.connections.values()
        if each.vhost is not None and not each.is_closing() and not each.access.rules.enters(each.vhost.name)
    ]  # fmt: skip


def close_barred(node: Node, why: str) -> int:
    """Close the connections (320) of users who may not use their virtual host any more; return their number.

    A connection that waits for an answer of another broker gets it first: call this again after a moment.
    """
    elsewhere, closed = node.control.elsewhere, 0
    for connection in barred(node):
        vhost = connection.vhost
        assert vhost is not None
        if elsewhere is not None and elsewhere.is_asking(connection):
            continue
        reason = f"user '{connection.user}' may not use vhost '{vhost.name}' any more: {why}"
        connection.close(ConnectionForced(reason))
        closed += 1
    return closed


def _delete_users(node: Node, request: ControlRequest) -> Steps[Row]:
    """Delete users; unknown names are ignored (as in RabbitMQ).

    A user that may not be deleted does not prevent the other deletions: the error names the first such user, and the
    number of deleted users.
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
        if node.broker.work.spend(DELETION_WORK):
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


def asked_users(node: Node, request: ControlRequest) -> list[User]:
    """Return the user that a request names, or all users. Raises NotFound (404)."""
    if "user" in request.fields:
        return [node.broker.access.user(request.text("user"))]
    return node.broker.access.users()


def _before(node: Node, request: ControlRequest) -> Row | None:
    user = node.broker.access.find(request.text("name"))
    return None if user is None else user_row(user)


def _hash(request: ControlRequest) -> PasswordHash | None:
    """Return the hash in a request; None without a hash, which permits no login by password."""
    if request.fields.get("password_hash") is None:
        return None
    return read_hash(request.text("password_hash"), request.text("hashing_algorithm", ""))


def _scram(request: ControlRequest) -> ScramKeys | None:
    return read_scram_keys(request.text("scram_secret")) if "scram_secret" in request.fields else None


def _read(node: Node, entry: Entry) -> User:
    """Read a user. Raises PreconditionFailed; no error shows a password or a hash."""
    name, clear = entry.text("name"), entry.text("password")
    hashed: PasswordHash | None = rabbitmq_hash(clear, _salt(name)) if clear else _given_hash(entry)
    user = User(name, hashed, [tag for tag in read_tags(entry.fields.get("tags", [])) if tag])
    user.limits = read_limits(entry.table("limits"), USER_LIMITS)
    return user


def _there(node: Node, entry: Entry) -> User | None:
    there = node.broker.access.find(entry.text("name"))
    if there is None:
        return None
    user = User(there.name, there.password_hash, there.tags, there.source, there.scram)
    user.former, user.limits = there.former, dict(there.limits)
    return user


def _plan(node: Node, entry: Entry, value: User, planned: Planned) -> None:
    check_tags(value.tags)
    if planned.administrators is None:
        planned.administrators = {user.name for user in node.broker.access.users() if user.is_administrator()}
    if value.is_administrator():
        planned.administrators.add(value.name)
    else:
        check_last(value.name, planned.administrators)
        planned.administrators.discard(value.name)
    planned.users.add(value.name)


def _put(node: Node, entry: Entry, value: User, before: User | None) -> Undo:
    table = node.broker.access
    if before is None:
        table.put_user(value.name, value.password_hash, value.tags)
    else:
        table.set_tags(value.name, value.tags)
        if not _same_password(before, entry):
            table.set_password(value.name, value.password_hash)
    _limit(node, value)
    return lambda: _put_back(node, value.name, before)


def _put_back(node: Node, name: str, before: User | None) -> str:
    table = node.broker.access
    if before is None and any(connection.user == name for connection in node.connections.values()):
        return f"user '{name}'"
    if table.find(name) is None:
        return ""
    if before is None:
        table.delete_user(name)
    else:
        table.set_password(name, before.password_hash, before.scram)
        table.set_tags(name, before.tags)
        _limit(node, before)
    return ""


def _limit(node: Node, user: User) -> None:
    if node.broker.access.user(user.name).limits != user.limits:
        node.broker.access.set_user_limits(user.name, {**dict.fromkeys(USER_LIMITS, -1), **user.limits})


def _check(node: Node, entry: Entry, value: User, planned: Planned | None) -> None:
    if node.broker.access.find(value.name) is None:
        check_user_name(value.name)


def _same(node: Node, entry: Entry, before: User | None, value: User) -> bool:
    return before is not None and _same_password(before, entry) and _compared(before) == _compared(value)


def in_file(node: Node, name: str) -> str:
    """Return the reason why definitions of a user are ignored: the settings file has the user; "" otherwise."""
    user = node.broker.access.find(name)
    return IN_FILE if user is not None and user.source == FILE else ""


def read_tags(given: object) -> list[str]:
    """Read tags: a list, or a text with commas as RabbitMQ's tools send it. Raises PreconditionFailed (406)."""
    tags = [tag.strip() for tag in given.split(",")] if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise PreconditionFailed("'tags' must be a list of strings, or a string with commas")
    return tags


def read_limits(given: dict[str, object], known: tuple[str, ...]) -> dict[str, int]:
    """Read limits; a negative number is no limit.

    Raises PreconditionFailed for an unknown name and for a value that is not a number.
    """
    limits: dict[str, int] = {}
    for name, value in given.items():
        if name not in known:
            raise PreconditionFailed(f"unknown limit '{name}'; known are {', '.join(known)}")
        limit: object = INTEGER.parse(value, True)
        if not isinstance(limit, int):
            raise PreconditionFailed(INTEGER.fault(f"limit {name}", value))
        if limit >= 0:
            limits[name] = limit
    return limits


def exported_user(user: User) -> Row:
    """Return a user in the form of RabbitMQ's definitions.

    RabbitMQ refuses a whole file for one hash that is not in base64. So a hash of Penstock has another key, which
    RabbitMQ ignores: in RabbitMQ the user then has no password.
    """
    hashed = user.password_hash
    if hashed is not None and hashed.algorithm == PLAIN:  # Guest, unchanged.
        hashed = rabbitmq_hash(hashed.digest.decode(), _salt(user.name))
    row: Row = {
        "name": user.name,
        "password_hash": "",
        "hashing_algorithm": SHA256,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }
    if hashed is not None and hashed.algorithm == SCRYPT:
        row[OWN_HASH] = hashed.text()
    elif hashed is not None:
        row["password_hash"], row["hashing_algorithm"] = hashed.text(), hashed.algorithm
    return row


def _given_hash(entry: Entry) -> PasswordHash | None:
    """Read the hash of a user: Penstock's, otherwise RabbitMQ's. Raises PreconditionFailed."""
    own = entry.text(OWN_HASH)
    if own:
        return read_hash(own, SCRYPT)
    return read_hash(entry.text("password_hash"), entry.text("hashing_algorithm", ""))


def _salt(name: str) -> bytes:
    """Return the salt of a password given in clear text: different for each name, and replaced at the login."""
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=RABBITMQ_SALT).digest()


def _same_password(user: User, entry: Entry) -> bool:
    hashed = user.password_hash
    if entry.text("password"):
        return hashed is not None and not hashed.is_slow() and hashed.verify(entry.text("password"))
    given = _given_hash(entry)
    if hashed is not None and hashed.algorithm == PLAIN and given is not None:  # Guest, exported with a hash.
        return not given.is_slow() and given.verify(hashed.digest.decode())
    return hashed == given or (given is not None and given.fingerprint() == user.former)


def _unchanged(placed: User, found: User | None) -> bool:
    """Return whether a user is unchanged, apart from a hash that a login may have replaced."""
    if found is None or _compared(placed) != _compared(found):
        return False
    hashed = placed.password_hash
    return hashed == found.password_hash or (hashed is not None and hashed.fingerprint() == found.former)


def _compared(user: User) -> Row:
    """Return the compared fields of a user, without its password."""
    return {"tags": user.tags, "limits": dict(user.limits)}


def _by_path(fields: Row) -> Row:
    """Return the fields of a request whose path names the user: tags are a list, or a text with commas."""
    entry: Row = {**fields, "name": fields.pop("user")}
    if isinstance(fields.get("tags"), str):
        entry["tags"] = [tag for tag in read_tags(fields["tags"]) if tag]
    elif "tags" in fields:
        read_tags(fields["tags"])
    if entry.setdefault("password_hash", "") is None:
        raise PreconditionFailed("'password_hash' must be a string, not null")
    return entry


DEFINITIONS: Final[Definitions] = Definitions(
    Section(
        "users",
        "name",
        texts=f"name password password_hash hashing_algorithm {OWN_HASH}",
        objects="limits",
        anything="tags",
    ),
    subject=lambda entry: f"user '{entry.text('name')}'",
    read=_read,
    row=_compared,
    find=_there,
    put=_put,
    check=_check,
    plan=_plan,
    same=_same,
    unchanged=_unchanged,
    left_out=lambda node, entry: in_file(node, entry.text("name")),
    secret=lambda entry, before: "" if _same_password(before, entry) else "password_hash",
)


def _without_permissions(node: Node, request: ControlRequest) -> Groups:
    users = node.broker.access.users()
    return iter([(None, [user for user in users if not user.permissions and not user.everywhere])])


def _row(node: Node, request: ControlRequest) -> Row | None:
    """Return the row of a user, with the samples of its messages."""
    user = node.broker.access.find(request.text("user"))
    if user is None:
        return None
    at = sampled(node, request)
    row = USER.row(user, at)
    counted = node.stats.users.get(user.name)
    stats = None if counted is None else tally_stats(counted.tally, counted.series, at.ranges)
    opened = node.services.open_connections
    row["penstock"] = {
        **USER.own(user, at),
        "connections": opened.connections_of(user.name),
        "channels": opened.channels_of(user.name),
        "held": held_by_operator(at, OF_USER, "", user.name),
        **({} if stats is None else {"message_stats": stats}),
    }
    return row


KIND: Final[ListKind] = ListKind(
    "users", lambda node, vhost: iter([(None, node.broker.access.users())]), USER, lambda user: user.name,
    tag=ADMINISTRATOR, everywhere=True, copied=True,
)  # fmt: skip
_PASSWORD: Final[tuple[str, ...]] = ("name", "password_hash", "hashing_algorithm", "scram_secret")
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("user.declare", declare_user, (*_PASSWORD, "tags", "new"), before=_before, asks=CATALOGUE, routes=(
        Route("PUT /users/{user}", "Add a user, or change its password and tags: 201 if it is new, 204 if it was "
              "there.", needed=("tags",), read=_by_path, silent=True),
    )),
    Operation("user.password", set_password, _PASSWORD, before=_before, asks=CATALOGUE),
    Operation("user.tags", set_tags, ("name", "tags"), before=_before, asks=CATALOGUE),
    Operation("user.delete", delete_user, ("name",), before=_before, asks=CATALOGUE, routes=(
        Route("DELETE /users/{user}", "Delete a user, and close its connections.", read=_by_path, silent=True),
    )),
    Operation("", _delete_users, ("users",), asks=CATALOGUE, routes=(
        Route("POST /users/bulk-delete", "Delete users; names that are not there are passed over (as in RabbitMQ).",
              needed=("users",), silent=True),
    )),
    looking("user.list", list_users, ("after", "count", "user"), asks=CATALOGUE),
    listing(KIND, "GET /users", "List users."),
    listing(KIND, "GET /users/without-permissions", "List the users who may enter no virtual host.",
            _without_permissions),
    showing("GET /users/{user}", "Show a user.", _row, ADMINISTRATOR, asks=CATALOGUE),
)  # fmt: skip
