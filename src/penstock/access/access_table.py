"""The table of users, their permissions and limits, and the limits of virtual hosts.

Users come from the settings file and from the store. A user of the file hides a user of the store with the same name. A
user of the file is changed only in the file. `epoch` counts the changes: an answer from another epoch is void.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mypy_extensions import i64

from penstock.access.password_hash import PasswordHash, ScramKeys, file_password
from penstock.access.permission import ADMINISTRATOR, Epoch, Expressions, Permission, TopicPermission
from penstock.access.user import (
    DEFAULT,
    EVERYTHING,
    STORE,
    USER_LIMITS,
    VHOST_LIMITS,
    AccessRecord,
    AccessRecorder,
    PermissionRecord,
    ScramSecret,
    TopicPermissionRecord,
    User,
    VhostLimits,
)
from penstock.errors import NotFound, PreconditionFailed, ResourceError
from penstock.texts import worded

GUEST: Final = "guest"
"""The user that exists while there is no other (as in RabbitMQ), with the password guest, only from this machine."""
USERS_MOST: Final = 100_000
"""Most users of the store, and as many users of the settings file."""
PERMISSIONS_MOST: Final = 1_000_000
"""Most permissions of all users of the store, with topic permissions."""
TEXTS_OCTETS: Final = 64 * 1024 * 1024
"""Most bytes of all names, tags and expressions of users in the store."""
NAME_OCTETS: Final = 255
"""Longest name, and longest tag, in bytes."""
_NO_TEXT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
TAGS_MOST: Final = 64
"""Most tags of a user."""
LIMIT_MOST: Final = 2**31 - 1
"""Largest value of a limit."""


class AccessTable:
    """Users by name."""

    def __init__(self, vhosts: Collection[str]) -> None:
        self.epoch: Final = Epoch()
        """Number of changes."""
        self.expressions = Expressions()
        self.recorder = AccessRecorder()
        """Recorder of the changes of users of the store, and of limits of virtual hosts."""
        self.scram_secret: Final = ScramSecret()
        self.vhost_limits: dict[str, dict[str, int]] = {}
        """Limits by virtual host and name."""
        self.vhosts = vhosts
        """Names of the present virtual hosts."""
        self._file: dict[str, User] = {}
        self._stored: dict[str, User] = {}
        self._permissions: i64 = 0
        self._octets: i64 = 0
        self._set_default()

    # Queries

    def find(self, name: str) -> User | None:
        """Return a user; None if it does not exist."""
        return self._file.get(name) or self._stored.get(name)

    def find_stored(self, name: str) -> User | None:
        """Return a user of the store, also one that a user of the settings file hides; None if it does not exist."""
        return self._stored.get(name)

    def user(self, name: str) -> User:
        """Return a user. Raises NotFound."""
        user = self.find(name)
        if user is None:
            raise NotFound(f"no user '{name}'")
        return user

    def names(self) -> list[str]:
        """Return the names of all users: users of the settings file first."""
        return [*self._file, *(name for name in self._stored if name not in self._file)]

    def users(self) -> list[User]:
        """Return all users, in the order of `names`."""
        return [*self._file.values(), *(user for name, user in self._stored.items() if name not in self._file)]

    def stored(self) -> list[User]:
        """Return the users of the store, including users hidden by the settings file."""
        return [user for user in self._stored.values() if user.source == STORE]

    def may_enter(self, name: str, vhost: str) -> bool:
        """Return whether a user may open a virtual host: it has a permission there, even an empty one (as in
        RabbitMQ).
        """
        user = self.find(name)
        return user is not None and user.permission(vhost) is not None

    def permits(self, name: str, kind: str, vhost: str, resource: str) -> bool:
        """Return whether a user may configure, write or read a queue or an exchange."""
        user = self.find(name)
        permission = None if user is None else user.permission(vhost)
        return permission is not None and self.expressions.matches(permission.expression(kind), resource)

    def topic_permission(self, name: str, vhost: str, exchange: str) -> TopicPermission | None:
        """Return the topic permission of a user for an exchange; None: every routing key is permitted."""
        user = self.find(name)
        return None if user is None else user.topic_permissions.get(vhost, {}).get(exchange)

    def user_limit(self, name: str, limit: str) -> int:
        """Return a limit of a user; -1 if there is none."""
        user = self.find(name)
        return -1 if user is None else user.limits.get(limit, -1)

    def vhost_limit(self, vhost: str, limit: str) -> int:
        """Return a limit of a virtual host; -1 if there is none."""
        return self.vhost_limits.get(vhost, {}).get(limit, -1)

    # Users

    def put_user(self, name: str, password_hash: PasswordHash | None, tags: Sequence[str]) -> User:
        """Add a user to the store, or change password and tags of an existing user, which keeps its permissions.

        Raises PreconditionFailed for a user of the settings file, for a bad name or tag, and if the last administrator
        would lose its tag; ResourceError at the limits of the table.
        """
        check_user_name(name)
        check_tags(tags)
        user = self._stored.get(name)
        self._check_changeable(name)
        self._check_administrators(name, tags)
        if user is None:
            if len(self._stored) >= USERS_MOST:
                raise ResourceError(f"user '{name}' is refused: there are {USERS_MOST} users, the most")
            self._check_room(name, len(name) + sum(map(len, tags)))
            user = User(name, password_hash, tags)
            self._stored[name] = user
        else:
            self._check_room(name, sum(map(len, tags)))
            self._count(user, -1)
            user.password_hash = password_hash
            user.scram = None
            user.former = ""
            user.tags = list(tags)
        self._count(user, 1)
        self._changed(user)
        return user

    def set_password(
        self, name: str, password_hash: PasswordHash | None, scram: ScramKeys | None = None, same: bool = False
    ) -> None:
        """Change the password of a user; with `same` only its hash is replaced by a better one.

        Raises NotFound; PreconditionFailed for a user of the settings file.
        """
        user = self._changeable(name)
        if not same:
            user.former = ""
        elif user.password_hash is not None:
            user.former = user.password_hash.fingerprint()
        user.password_hash = password_hash
        user.scram = scram
        self._changed(user)

    def set_scram(self, name: str, scram: ScramKeys) -> None:
        """Store the keys derived from a user's password. Raises NotFound."""
        user = self.user(name)
        user.scram = scram
        if user.source == STORE:
            self.recorder.change(user)

    def set_tags(self, name: str, tags: Sequence[str]) -> None:
        """Change the tags of a user. Raises NotFound, or PreconditionFailed as `put_user`."""
        user = self._changeable(name)
        check_tags(tags)
        self._check_administrators(name, tags)
        self._check_room(name, sum(map(len, tags)))
        self._count(user, -1)
        user.tags = list(tags)
        self._count(user, 1)
        self._changed(user)

    def delete_user(self, name: str) -> None:
        """Delete a user with its permissions and limits.

        Raises NotFound; PreconditionFailed for a user of the settings file, and for the last administrator.
        """
        user = self._changeable(name)
        self._check_administrators(name, ())
        self._count(user, -1)
        del self._stored[name]
        self._changed()
        self._forget_all(user)

    def set_file_users(self, users: Iterable[User] | None) -> None:
        """Replace the users of the settings file: at the start, and at a reload; None: the file names none."""
        self._file = {} if users is None else {user.name: user for user in users}
        self._set_default()
        self.epoch.count += 1

    def restore_user(self, user: User) -> None:
        """Restore a user from the store at the start, before its permissions."""
        former = self._stored.get(user.name)
        if former is not None:  # Guest, which exists only while no other user does.
            self._octets -= former.octets()
        self._stored[user.name] = user
        self._octets += user.octets()
        self._set_default()
        self.epoch.count += 1

    def restore_permission(self, record: PermissionRecord | TopicPermissionRecord) -> None:
        """Restore a permission from the store at the start. Raises NotFound for an unknown user."""
        user = self._stored.get(record.user)
        if user is None:
            raise NotFound(f"no user '{record.user}'")
        self._count(user, -1)
        if isinstance(record, PermissionRecord):
            user.permissions[record.vhost] = record.permission
        else:
            topics = user.topic_permissions.setdefault(record.vhost, {})
            topics[record.exchange] = record.permission
        self._count(user, 1)
        self.epoch.count += 1

    # Copies: another table has decided, so nothing is checked

    def copy_user(self, user: User) -> None:
        """Add a user, or replace the user of that name, whose permissions stay."""
        former = self._stored.get(user.name)
        if former is not None:
            self._count(former, -1)
            user.permissions, user.topic_permissions = former.permissions, former.topic_permissions
        self._stored[user.name] = user
        self._count(user, 1)
        self._set_default()
        self.epoch.count += 1
        self.recorder.change(user)

    def copy_permission(self, record: PermissionRecord | TopicPermissionRecord) -> None:
        """Set a permission of a user; that of an unknown user, and of guest as the default, is left out."""
        user = self._stored.get(record.user)
        if user is not None and user.source == STORE:
            self.restore_permission(record)
            self.recorder.change(record)

    def copy_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        """Replace the limits of a virtual host, which may be one of another table; none: remove them."""
        self.epoch.count += 1
        if limits:
            self.vhost_limits[vhost] = limits
            self.recorder.change(VhostLimits(vhost, limits))
        elif self.vhost_limits.pop(vhost, None) is not None:
            self.recorder.forget(VhostLimits(vhost, {}))

    def drop_user(self, name: str) -> None:
        """Remove a user of the store with its permissions; an unknown name is ignored."""
        user = self._stored.pop(name, None)
        if user is not None:  # Guest does not come back, even if no user is left: as after `delete_user`.
            self._count(user, -1)
            self.epoch.count += 1
            self._forget_all(user)

    def drop_permission(self, name: str, vhost: str) -> None:
        """Remove a permission; a missing one is ignored."""
        user = self._stored.get(name)
        if user is not None and vhost in user.permissions:
            self._count(user, -1)
            self.recorder.forget(PermissionRecord(name, vhost, user.permissions.pop(vhost)))
            self._count(user, 1)
            self.epoch.count += 1

    def drop_topic_permission(self, name: str, vhost: str, exchange: str) -> None:
        """Remove a topic permission; a missing one is ignored."""
        user = self._stored.get(name)
        topics = {} if user is None else user.topic_permissions.get(vhost, {})
        if user is not None and exchange in topics:
            self._count(user, -1)
            self.recorder.forget(TopicPermissionRecord(name, vhost, exchange, topics.pop(exchange)))
            if not topics:
                del user.topic_permissions[vhost]
            self._count(user, 1)
            self.epoch.count += 1

    # Permissions

    def set_permission(self, name: str, vhost: str, permission: Permission) -> None:
        """Set the permission of a user in a virtual host.

        Raises NotFound for an unknown user or virtual host; PreconditionFailed for a user of the settings file and an
        expression that RE2 refuses; ResourceError at the limits of the table.
        """
        user = self._changeable(name)
        self._check_vhost(vhost)
        permission.check(name, vhost)
        self._check_more(name, vhost not in user.permissions, permission.octets() + len(vhost))
        self._count(user, -1)
        user.permissions[vhost] = permission
        self._count(user, 1)
        self._changed(PermissionRecord(name, vhost, permission))

    def clear_permission(self, name: str, vhost: str) -> bool:
        """Remove the permission of a user in a virtual host; returns whether there was one. Raises as
        `set_permission`.
        """
        user = self._changeable(name)
        self._check_vhost(vhost)
        if vhost not in user.permissions and not user.everywhere:
            return False
        self._end_everywhere(user)
        self._count(user, -1)
        self.recorder.forget(PermissionRecord(name, vhost, user.permissions.pop(vhost)))
        self._count(user, 1)
        self._changed()
        return True

    def set_topic_permission(self, name: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        """Set the topic permission of a user for an exchange. Raises as `set_permission`."""
        user = self._changeable(name)
        self._check_vhost(vhost)
        _raise_flaw("exchange", exchange, _length_flaw(exchange))
        permission.check(name, vhost, exchange)
        topics = user.topic_permissions.get(vhost, {})
        self._check_more(name, exchange not in topics, permission.octets() + len(vhost) + len(exchange))
        self._count(user, -1)
        topics[exchange] = permission
        user.topic_permissions[vhost] = topics
        self._count(user, 1)
        self._changed(TopicPermissionRecord(name, vhost, exchange, permission))

    def clear_topic_permissions(self, name: str, vhost: str, exchange: str | None = None) -> int:
        """Remove the topic permission for an exchange, None: all of the virtual host; returns the number removed.
        Raises as `set_permission`.
        """
        user = self._changeable(name)
        self._check_vhost(vhost)
        topics = user.topic_permissions.get(vhost, {})
        removed = [each for each in topics if exchange is None or each == exchange]
        if not removed:
            return 0
        self._count(user, -1)
        for each in removed:
            self.recorder.forget(TopicPermissionRecord(name, vhost, each, topics.pop(each)))
        if not topics:
            del user.topic_permissions[vhost]
        self._count(user, 1)
        self._changed()
        return len(removed)

    # Limits

    def set_user_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """Set limits of a user by name; a negative value removes one (as in RabbitMQ).

        Raises NotFound; PreconditionFailed for an unknown name and for a user of the settings file.
        """
        user = self._changeable(name)
        check_limits(limits, USER_LIMITS)
        for limit, value in limits.items():
            _set_limit(user.limits, limit, value)
        self._changed(user)

    def set_vhost_limits(self, vhost: str, limits: Mapping[str, int]) -> None:
        """Set limits of a virtual host by name; a negative value removes one. Raises NotFound, PreconditionFailed."""
        self._check_vhost(vhost)
        check_limits(limits, VHOST_LIMITS)
        self.recorder.check_writable()
        own = self.vhost_limits.get(vhost, {})
        for limit, value in limits.items():
            _set_limit(own, limit, value)
        self.epoch.count += 1
        if own:
            self.vhost_limits[vhost] = own
            self.recorder.change(VhostLimits(vhost, own))
        else:
            self.vhost_limits.pop(vhost, None)
            self.recorder.forget(VhostLimits(vhost, {}))

    def forget_vhost(self, vhost: str) -> None:
        """Remove all permissions and limits of a virtual host that is deleted."""
        for user in self._stored.values():
            if vhost in user.permissions or vhost in user.topic_permissions:
                self._count(user, -1)
                permission = user.permissions.pop(vhost, None)
                if permission is not None:
                    self.recorder.forget(PermissionRecord(user.name, vhost, permission))
                self._forget_topics(user, vhost)
                user.topic_permissions.pop(vhost, None)
                self._count(user, 1)
        if vhost in self.vhost_limits:
            self.recorder.forget(VhostLimits(vhost, self.vhost_limits.pop(vhost)))
        self.epoch.count += 1

    # Checks

    def _forget_all(self, user: User) -> None:
        """Record the deletion of a user with its permissions."""
        self.recorder.forget(user)
        for vhost, permission in user.permissions.items():
            self.recorder.forget(PermissionRecord(user.name, vhost, permission))
        for vhost in user.topic_permissions:
            self._forget_topics(user, vhost)

    def _forget_topics(self, user: User, vhost: str) -> None:
        for exchange, permission in user.topic_permissions.get(vhost, {}).items():
            self.recorder.forget(TopicPermissionRecord(user.name, vhost, exchange, permission))

    def _count(self, user: User, sign: int) -> None:
        """Add a store user's use of the table's limits, or subtract it (-1) before a change."""
        self._octets += sign * user.octets()
        self._permissions += sign * (len(user.permissions) + sum(map(len, user.topic_permissions.values())))

    def _changed(self, record: AccessRecord | None = None) -> None:
        """Count a change of a user of the store, and record it: `record` was added or changed; None: only removed.

        Guest stays when there is another user, so guest is stored as well.
        """
        guest = self._stored.get(GUEST)
        if guest is not None and guest.source == DEFAULT:
            guest.source = STORE
            self.recorder.change(guest)
        self.epoch.count += 1
        if record is not None:
            self.recorder.change(record)

    def _changeable(self, name: str) -> User:
        self._check_changeable(name)
        return self.user(name)

    def _check_changeable(self, name: str) -> None:
        if name in self._file:
            raise PreconditionFailed(
                f"user '{name}' is in the settings file, [users]; change it there and reload (SIGHUP)"
            )
        self.recorder.check_writable()

    def _check_administrators(self, name: str, tags: Sequence[str]) -> None:
        """Refuse a change that leaves no administrator: `tags` are a user's new tags."""
        user = self.find(name)
        if user is None or not user.is_administrator() or ADMINISTRATOR in tags:
            return
        check_last(name, [user.name for user in self.users() if user.is_administrator()])

    def _check_vhost(self, vhost: str) -> None:
        if vhost not in self.vhosts:
            raise NotFound(f"no vhost '{vhost}'")

    def _check_more(self, name: str, new: bool, octets: int) -> None:
        if new and self._permissions >= PERMISSIONS_MOST:
            raise ResourceError(
                f"permission of user '{name}' is refused: there are {PERMISSIONS_MOST} permissions, the most"
            )
        self._check_room(name, octets)

    def _check_room(self, name: str, octets: int) -> None:
        if self._octets + octets > TEXTS_OCTETS:
            raise ResourceError(
                f"user '{name}' is refused: names and expressions of all users would take more than "
                f"{TEXTS_OCTETS} bytes, the most"
            )

    def _end_everywhere(self, user: User) -> None:
        """Replace a user's permission everywhere by a permission in each virtual host."""
        if user.everywhere:
            user.everywhere = False
            self._count(user, -1)
            for vhost in self.vhosts:
                if vhost not in user.permissions:
                    user.permissions[vhost] = EVERYTHING
                    self.recorder.change(PermissionRecord(user.name, vhost, EVERYTHING))
            self._count(user, 1)
            self.recorder.change(user)

    def _set_default(self) -> None:
        """Add guest while there is no other user; remove guest when there is one and guest was never changed."""
        stored = self._stored.get(GUEST)
        if stored is not None and stored.source == DEFAULT:
            self._octets -= stored.octets()
            del self._stored[GUEST]
        if not self._file and not self._stored:
            added = guest()
            self._stored[GUEST] = added
            self._octets += added.octets()


def guest() -> User:
    """Return the user guest: password guest, administrator, all permissions in every virtual host."""
    user = User(GUEST, file_password(GUEST), [ADMINISTRATOR], DEFAULT)
    user.everywhere = True
    return user


def check_tags(tags: Sequence[str]) -> None:
    """Check tags. Raises PreconditionFailed for an empty tag, a tag that is too long, and too many tags."""
    if len(tags) > TAGS_MOST:
        raise PreconditionFailed(f"a user has at most {TAGS_MOST} tags, not {len(tags)}")
    for tag in tags:
        check_user_name(tag, "tag")


def check_last(name: str, administrators: Collection[str]) -> None:
    """Raise PreconditionFailed if a user that will lose its tag is the only administrator."""
    if list(administrators) == [name]:
        raise PreconditionFailed(
            f"user '{name}' is the last administrator; give another user the tag administrator first"
        )


def check_limits(limits: Mapping[str, int], known: Sequence[str]) -> None:
    """Check limits. Raises PreconditionFailed for an unknown name, and a value that is too large."""
    for name, value in limits.items():
        if name not in known:
            raise PreconditionFailed(f"unknown limit '{name}'; known are {', '.join(known)}")
        if value > LIMIT_MOST:
            raise PreconditionFailed(f"limit {name} must be {LIMIT_MOST} at most, or negative for none, not {value}")


def _set_limit(limits: dict[str, int], name: str, value: int) -> None:
    if value < 0:
        limits.pop(name, None)
    else:
        limits[name] = value


def name_flaw(name: str) -> str:
    """Return the rule that a user name breaks, from any source (a token, a back end); empty for none."""
    return _length_flaw(name) or (
        "has a control character or a lone surrogate (half a character)" if _NO_TEXT.search(name) else ""
    )


def check_user_name(name: str, what: str = "user") -> None:
    """Raise PreconditionFailed for a name that breaks a rule of `name_flaw`."""
    _raise_flaw(what, name, name_flaw(name))


def _length_flaw(name: str) -> str:
    octets = len(name.encode(errors="replace"))
    if octets == 0:
        return "must not be empty"
    return f"has {octets} bytes; the most is {NAME_OCTETS}" if octets > NAME_OCTETS else ""


def _raise_flaw(what: str, name: str, flaw: str) -> None:
    if flaw:
        raise PreconditionFailed(f"the name {worded(name[:60])} of a {what} {flaw}")
