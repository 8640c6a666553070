"""Definitions of users, permissions, topic permissions, and limits of virtual hosts.

A user of the settings file is not changed by an import: the file counts, and its entry is left out with a sentence.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.access.access_table import AccessTable, check_last, check_tags, check_user_name
from penstock.access.password_hash import PLAIN, RABBITMQ_SALT, SCRYPT, SHA256, PasswordHash, rabbitmq_hash, read_hash
from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import (
    EVERYTHING,
    FILE,
    USER_LIMITS,
    VHOST_LIMITS,
    PermissionRecord,
    TopicPermissionRecord,
    User,
)
from penstock.describe.table import Row
from penstock.describe.user import permission_row, topic_row
from penstock.errors import NotFound, PreconditionFailed
from penstock.management import vhost_admin
from penstock.management.definitions_kinds import (
    CHANGED,
    CREATED,
    UNCHANGED,
    DefinitionKind,
    Difference,
    Made,
    Planned,
    details_of,
)
from penstock.management.definitions_parser import OWN_HASH, Entry

if TYPE_CHECKING:
    from penstock.management.node import Node

IN_FILE: Final = "it is in the settings file, [users], which counts; this entry is left out"


class UserKind(DefinitionKind):
    """Users, with tags, hashes and limits."""

    name = "users"

    @override
    def subject(self, entry: Entry) -> str:
        return f"user '{entry.text('name')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        name = entry.text("name")
        after = _user(entry)
        table = self.node.broker.access
        before = table.find(name)
        if name in planned.users:
            return self.difference(entry, UNCHANGED)
        if before is None:
            check_user_name(name)
        elif before.source == FILE:
            return _left_out(self.difference(entry, UNCHANGED))
        found = self.difference(entry, CREATED if before is None else CHANGED)
        if before is not None:
            found.details = details_of(_view(before), _view(after))
            if not _same_password(before, entry):
                found.details.append(("password_hash", "", ""))
            if not found.details:
                return self.difference(entry, UNCHANGED)
        check_tags(after.tags)
        if planned.administrators is None:
            planned.administrators = {user.name for user in table.users() if user.is_administrator()}
        if after.is_administrator():
            planned.administrators.add(name)
        else:
            check_last(name, planned.administrators)
            planned.administrators.discard(name)
        planned.users.add(name)
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        table, name = self.node.broker.access, entry.text("name")
        after = _user(entry)
        before = table.find(name)
        if before is None:
            table.put_user(name, after.password_hash, after.tags)
            _set_limits(table, name, after.limits)
            made.add(self.name, CREATED, lambda: self._drop(name))
            return
        if before.source == FILE:
            made.notes.append(f"{self.subject(entry)}: {IN_FILE}")
            return
        same = _same_password(before, entry)
        if same and _view(before) == _view(after):
            return
        tags, hashed, scram, limits = before.tags, before.password_hash, before.scram, dict(before.limits)
        table.set_tags(name, after.tags)
        if not same:
            table.set_password(name, after.password_hash)
        _set_limits(table, name, after.limits)
        made.add(self.name, CHANGED, lambda: self._put_back(name, tags, hashed, scram, limits))

    def _drop(self, name: str) -> str:
        if any(connection.user == name for connection in self.node.connections.values()):
            return f"user '{name}'"
        if self.node.broker.access.find(name) is not None:
            self.node.broker.access.delete_user(name)
        return ""

    def _put_back(
        self,
        name: str,
        tags: list[str],
        hashed: PasswordHash | None,
        scram: tuple[bytes, bytes, bytes, int] | None,
        limits: dict[str, int],
    ) -> str:
        table = self.node.broker.access
        if table.find(name) is not None:
            table.set_password(name, hashed, scram)
            table.set_tags(name, tags)
            _set_limits(table, name, limits)
        return ""


class PermissionKind(DefinitionKind):
    """Permissions of users in virtual hosts."""

    name = "permissions"

    @override
    def subject(self, entry: Entry) -> str:
        return f"permission of user '{entry.text('user')}' in vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        vhost, after = self.check_vhost(entry, planned), _permission(entry)
        after.check(entry.text("user"), vhost)
        user = check_user(self.node, entry, planned)
        if user is not None and user.source == FILE:
            return _left_out(self.difference(entry, UNCHANGED))
        before = None if user is None else user.permissions.get(vhost)
        if user is not None and user.permission(vhost) == after:
            return self.difference(entry, UNCHANGED)
        if before is None:
            return self.difference(entry, CREATED)
        found = self.difference(entry, CHANGED)
        found.details = details_of(permission_row(before), permission_row(after))
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        table, name, after = self.node.broker.access, entry.text("user"), _permission(entry)
        vhost = vhost_admin.find_vhost(self.node, entry.text("vhost")).name
        user = table.user(name)
        if user.source == FILE:
            made.notes.append(f"{self.subject(entry)}: {IN_FILE}")
            return
        before = user.permissions.get(vhost)
        if user.permission(vhost) == after:
            return
        table.set_permission(name, vhost, after)
        made.add(self.name, CREATED if before is None else CHANGED, lambda: self._put_back(name, vhost, before))

    def _put_back(self, name: str, vhost: str, before: Permission | None) -> str:
        table = self.node.broker.access
        if table.find(name) is None or vhost not in self.node.broker.vhosts:
            return ""
        if before is not None:
            table.set_permission(name, vhost, before)
        elif table.user(name).everywhere:
            table.set_permission(name, vhost, EVERYTHING)  # What it had without a permission of its own.
        else:
            table.clear_permission(name, vhost)
        return ""


class TopicPermissionKind(DefinitionKind):
    """Topic permissions of users for exchanges."""

    name = "topic_permissions"

    @override
    def subject(self, entry: Entry) -> str:
        exchange = f"exchange '{entry.text('exchange')}' in vhost '{entry.text('vhost')}'"
        return f"topic permission of user '{entry.text('user')}' for {exchange}"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        vhost, exchange, after = self.check_vhost(entry, planned), entry.text("exchange"), _topic(entry)
        after.check(entry.text("user"), vhost, exchange)
        user = check_user(self.node, entry, planned)
        if user is not None and user.source == FILE:
            return _left_out(self.difference(entry, UNCHANGED))
        before = None if user is None else user.topic_permissions.get(vhost, {}).get(exchange)
        if before is None:
            return self.difference(entry, CREATED)
        if before == after:
            return self.difference(entry, UNCHANGED)
        found = self.difference(entry, CHANGED)
        found.details = details_of(topic_row(before), topic_row(after))
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        table, name, exchange = self.node.broker.access, entry.text("user"), entry.text("exchange")
        vhost, after = vhost_admin.find_vhost(self.node, entry.text("vhost")).name, _topic(entry)
        user = table.user(name)
        if user.source == FILE:
            made.notes.append(f"{self.subject(entry)}: {IN_FILE}")
            return
        before = user.topic_permissions.get(vhost, {}).get(exchange)
        if before == after:
            return
        table.set_topic_permission(name, vhost, exchange, after)
        change = CREATED if before is None else CHANGED
        made.add(self.name, change, lambda: self._put_back(name, vhost, exchange, before))

    def _put_back(self, name: str, vhost: str, exchange: str, before: TopicPermission | None) -> str:
        table = self.node.broker.access
        if table.find(name) is None or vhost not in self.node.broker.vhosts:
            return ""
        if before is not None:
            table.set_topic_permission(name, vhost, exchange, before)
        else:
            table.clear_topic_permissions(name, vhost, exchange)
        return ""


class VhostLimitsKind(DefinitionKind):
    """Limits of virtual hosts, which RabbitMQ exports as parameters."""

    name = "limits"

    @override
    def subject(self, entry: Entry) -> str:
        return f"limits of vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        vhost, after = self.check_vhost(entry, planned), _limits(entry.table("value"), VHOST_LIMITS)
        before = self.node.broker.access.vhost_limits.get(vhost, {})
        if before == after:
            return self.difference(entry, UNCHANGED)
        found = self.difference(entry, CHANGED if before else CREATED)
        found.details = details_of(_plain(before), _plain(after)) if before else []
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        table, after = self.node.broker.access, _limits(entry.table("value"), VHOST_LIMITS)
        vhost = vhost_admin.find_vhost(self.node, entry.text("vhost")).name
        before = dict(table.vhost_limits.get(vhost, {}))
        if before == after:
            return
        self._set(vhost, after)
        made.add(self.name, CHANGED if before else CREATED, lambda: self._set(vhost, before))

    def _set(self, vhost: str, limits: dict[str, int]) -> str:
        if vhost in self.node.broker.vhosts:
            self.node.broker.access.set_vhost_limits(vhost, {**dict.fromkeys(VHOST_LIMITS, -1), **limits})
        return ""


def check_user(node: Node, entry: Entry, planned: Planned) -> User | None:
    """Return the user of an entry; None if it is planned. Raises NotFound (404)."""
    name = entry.text("user")
    user = node.broker.access.find(name)
    if user is None and name not in planned.users:
        raise NotFound(f"no user '{name}'")
    return user


# Export


def items_of_user(user: User, section: str, vhosts: list[str]) -> list[object]:
    """Return the items of one user in a section."""
    if section == "users":
        return [user]
    found: list[object] = []
    if section == "permissions":
        for vhost in vhosts if user.everywhere else user.permissions:
            permission = user.permission(vhost)
            if permission is not None:
                found.append(PermissionRecord(user.name, vhost, permission))
        return found
    for vhost, topics in user.topic_permissions.items():
        found += [TopicPermissionRecord(user.name, vhost, name, each) for name, each in topics.items()]
    return found


def exported_user(user: User) -> Row:
    """Return a user as RabbitMQ's definitions have it.

    RabbitMQ refuses a whole file for one hash that is not in base64. So ours has a key of its own, which RabbitMQ
    ignores, and there the user has no password.
    """
    hashed = user.password_hash
    if hashed is not None and hashed.algorithm == PLAIN:  # Guest, whom nobody has changed.
        hashed = rabbitmq_hash(hashed.digest.decode(), _salt(user.name))
    found: Row = {
        "name": user.name,
        "password_hash": "",
        "hashing_algorithm": SHA256,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }
    if hashed is not None and hashed.algorithm == SCRYPT:
        found[OWN_HASH] = hashed.text()
    elif hashed is not None:
        found["password_hash"], found["hashing_algorithm"] = hashed.text(), hashed.algorithm
    return found


# Parts of entries


def _user(entry: Entry) -> User:
    """Read a user. Raises PreconditionFailed; no error shows a password or a hash."""
    name, given = entry.text("name"), entry.fields.get("tags", [])
    tags = [tag.strip() for tag in given.split(",")] if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise PreconditionFailed("'tags' must be a list of strings, or a string with commas")
    if entry.text("password"):
        hashed: PasswordHash | None = rabbitmq_hash(entry.text("password"), _salt(name))
    else:
        hashed = _given_hash(entry)
    user = User(name, hashed, [tag for tag in tags if tag])
    user.limits = _limits(entry.table("limits"), USER_LIMITS)
    return user


def _given_hash(entry: Entry) -> PasswordHash | None:
    """Read the hash of a user: ours, or else RabbitMQ's. Raises PreconditionFailed."""
    own = entry.text(OWN_HASH)
    if own:
        return read_hash(own, SCRYPT)
    return read_hash(entry.text("password_hash"), entry.text("hashing_algorithm", SHA256))


def _salt(name: str) -> bytes:
    """Return the salt of a password that was given in clear: another one for each name, replaced at the login."""
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=RABBITMQ_SALT).digest()


def _same_password(user: User, entry: Entry) -> bool:
    hashed = user.password_hash
    if entry.text("password"):
        return hashed is not None and not hashed.is_slow() and hashed.verify(entry.text("password"))
    given = _given_hash(entry)
    if hashed is not None and hashed.algorithm == PLAIN and given is not None:  # Guest, exported with a hash.
        return not given.is_slow() and given.verify(hashed.digest.decode())
    return hashed == given or (given is not None and given.fingerprint() == user.former)


def _permission(entry: Entry) -> Permission:
    return Permission(entry.text("configure"), entry.text("write"), entry.text("read"))


def _topic(entry: Entry) -> TopicPermission:
    return TopicPermission(entry.text("write"), entry.text("read"))


def _limits(given: dict[str, object], known: tuple[str, ...]) -> dict[str, int]:
    """Read limits; a negative one is none. Raises PreconditionFailed for an unknown name and for what is no number."""
    found: dict[str, int] = {}
    for name, value in given.items():
        if name not in known:
            raise PreconditionFailed(f"unknown limit '{name}'; known are {', '.join(known)}")
        if not isinstance(value, int) or isinstance(value, bool):
            raise PreconditionFailed(f"limit {name} must be a whole number")
        if value >= 0:
            found[name] = value
    return found


def _set_limits(table: AccessTable, name: str, limits: dict[str, int]) -> None:
    if table.user(name).limits != limits:
        table.set_user_limits(name, {**dict.fromkeys(USER_LIMITS, -1), **limits})


def _left_out(found: Difference) -> Difference:
    found.note = IN_FILE
    return found


def _view(user: User) -> dict[str, object]:
    return {"tags": user.tags, "limits": _plain(user.limits)}


def _plain(limits: dict[str, int]) -> dict[str, object]:
    found: dict[str, object] = {}
    found.update(limits)
    return found
