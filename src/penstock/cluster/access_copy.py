"""Copy of access in a shard: users, permissions and limits as the catalogue of the node has them.

Rows come in the order of their last changes, so a permission may come before its user. It waits for the user until the
pull ends; a permission whose user was deleted waits for nothing and is dropped then. After the first pull the table has
what the catalogue has and nothing else: the store of the shard may know users from another time.

Changes are recorded in the store of the shard too. So a node with one shard can be a broker again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.access.access_table import AccessTable
from penstock.access.user import STORE, PermissionRecord, TopicPermissionRecord, VhostLimits
from penstock.cluster.catalogue import BEGIN, AccessRow, Place
from penstock.errors import StoreError
from penstock.persistence.metadata_records import (
    PERMISSION,
    SCRAM_SECRET,
    TOPIC_PERMISSION,
    USER,
    VHOST_LIMITS,
    Fields,
    kind_of,
    names_of,
    read_permission,
    read_topic_permission,
    read_user,
    restore_scram_secret,
    unpack,
)

KINDS: Final = (USER, PERMISSION, TOPIC_PERMISSION, VHOST_LIMITS, SCRAM_SECRET)
"""Kinds of rows that a shard copies."""


class AccessCopy:
    """The table of one shard."""

    def __init__(self, table: AccessTable) -> None:
        self._table = table
        self.place: Place = BEGIN
        """Place of the last row that was applied."""
        self.is_whole = False
        """True once the first pull has ended."""
        self._waiting: dict[str, list[PermissionRecord | TopicPermissionRecord]] = {}
        """Permissions of this pull whose users have not come."""
        self._seen: set[tuple[str, str]] = set()
        """Kinds and keys of the first pull."""
        self._cut: dict[tuple[str, str], list[str]] = {}
        """Names of rows whose keys were cut, by kind and key: a deletion has the key alone."""

    def apply(self, rows: Iterable[AccessRow], place: Place, last: bool) -> list[str]:
        """Apply a page; `place` is its end, `last` ends the pull. Return a sentence for each row that is left out.

        The former state of such a row stays.
        """
        left_out: list[str] = []
        for row in rows:
            try:
                if row.value is None:
                    self._drop(row.kind, row.key)
                else:
                    self._put(row.kind, row.key, unpack(row.value))
            except StoreError as error:
                left_out.append(f"{row.kind} '{row.key}' of the catalogue cannot be read: {error}")
            if not self.is_whole:
                self._seen.add((row.kind, row.key))
        self.place = place
        if last:
            self._waiting.clear()
            if not self.is_whole:
                self._drop_others()
                self._seen.clear()
                self.is_whole = True
        return left_out

    def _put(self, kind: str, key: str, fields: Fields) -> None:
        if kind == USER:
            self._put_user(fields)
        elif kind == PERMISSION:
            self._put_permission(read_permission(fields))
        elif kind == TOPIC_PERMISSION:
            self._put_permission(read_topic_permission(fields))
        elif kind == VHOST_LIMITS:
            vhost, limits = fields.text("vhost"), fields.counts("limits")
            if self._table.vhost_limits.get(vhost) != limits:
                self._table.copy_vhost_limits(vhost, limits)
        elif kind == SCRAM_SECRET:
            restore_scram_secret(self._table, fields)
        if "%#" in key:
            self._cut[kind, key] = _names_in(kind, fields)

    def _put_user(self, fields: Fields) -> None:
        user = read_user(fields)
        former = self._table.find_stored(user.name)
        if former is None or former.source != STORE or _differ(former, user):
            self._table.copy_user(user)
        for each in self._waiting.pop(user.name, []):
            self._put_permission(each)

    def _put_permission(self, record: PermissionRecord | TopicPermissionRecord) -> None:
        user = self._table.find_stored(record.user)
        if user is None or user.source != STORE:
            self._waiting.setdefault(record.user, []).append(record)
            return
        if isinstance(record, PermissionRecord):
            former = user.permissions.get(record.vhost)
            if former is not None and not _differ(PermissionRecord(user.name, record.vhost, former), record):
                return
        self._table.copy_permission(record)

    def _drop(self, kind: str, key: str) -> None:
        names = self._cut.pop((kind, key), None) or ([] if "%#" in key else names_of(key))
        table = self._table
        match kind, names:
            case "user", [user]:
                table.drop_user(user)
            case "permission", [user, vhost]:
                table.drop_permission(user, vhost)
            case "topic-permission", [user, vhost, exchange]:
                table.drop_topic_permission(user, vhost, exchange)
            case "vhost-limits", [vhost]:
                table.copy_vhost_limits(vhost, {})

    def _drop_others(self) -> None:
        """Drop all that the catalogue does not have."""
        table, seen = self._table, self._seen
        for user in table.stored():
            if (USER, kind_of(user).key(user)) not in seen:
                table.drop_user(user.name)
                continue
            for vhost, permission in list(user.permissions.items()):
                record = PermissionRecord(user.name, vhost, permission)
                if (PERMISSION, kind_of(record).key(record)) not in seen:
                    table.drop_permission(user.name, vhost)
            for vhost, topics in list(user.topic_permissions.items()):
                for exchange, topic in list(topics.items()):
                    of_topic = TopicPermissionRecord(user.name, vhost, exchange, topic)
                    if (TOPIC_PERMISSION, kind_of(of_topic).key(of_topic)) not in seen:
                        table.drop_topic_permission(user.name, vhost, exchange)
        for vhost, limits in list(table.vhost_limits.items()):
            of_vhost = VhostLimits(vhost, limits)
            if (VHOST_LIMITS, kind_of(of_vhost).key(of_vhost)) not in seen:
                table.copy_vhost_limits(vhost, {})


def _differ(one: object, other: object) -> bool:
    """Return whether the records of two objects of one kind differ."""
    return kind_of(one).fields(one) != kind_of(other).fields(other)


def _names_in(kind: str, fields: Fields) -> list[str]:
    names = {USER: ("name",), PERMISSION: ("user", "vhost"), TOPIC_PERMISSION: ("user", "vhost", "exchange")}
    return [fields.text(name) for name in names.get(kind, ("vhost",))]
