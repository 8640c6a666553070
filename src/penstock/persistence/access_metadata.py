"""Metadata records of users, permissions and limits."""

from __future__ import annotations

from typing import Final

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import PLAIN, PasswordHash, file_password, read_hash
from penstock.access.permission import KINDS, READ, WRITE, Permission, TopicPermission
from penstock.access.user import STORE, PermissionRecord, TopicPermissionRecord, User
from penstock.errors import StoreError
from penstock.persistence.metadata_codec import Fields

USER: Final = "user"
"""A user with its tags and limits; its password is a hash, but for guest that nobody has changed."""
PERMISSION: Final = "permission"
TOPIC_PERMISSION: Final = "topic-permission"
VHOST_LIMITS: Final = "vhost-limits"
SCRAM_SECRET: Final = "scram-secret"


def user_fields(user: User) -> dict[str, object]:
    """Return the fields of a user that it may lack: its password, keys and limits."""
    fields: dict[str, object] = {}
    hashed = user.password_hash
    if hashed is not None:
        fields["algorithm"] = hashed.algorithm
        fields["hash"] = hashed.digest.decode() if hashed.algorithm == PLAIN else hashed.text()
    if user.scram is not None:
        salt, stored, server, iterations = user.scram
        fields["scram"] = [salt.hex(), stored.hex(), server.hex(), str(iterations)]
    if user.former:
        fields["former"] = user.former
    if user.limits:
        fields["limits"] = dict(user.limits)
    return fields


def permission_fields(record: PermissionRecord | TopicPermissionRecord) -> dict[str, object]:
    """Return the expressions of a permission."""
    permission, kinds = record.permission, KINDS if isinstance(record, PermissionRecord) else (WRITE, READ)
    return {kind: permission.expression(kind) for kind in kinds}


def restore_user(table: AccessTable, fields: Fields) -> None:
    """Add a user to the table. Raises StoreError."""
    user = User(fields.text("name"), _password(fields), fields.names("tags"), STORE)
    user.everywhere = fields.flag("everywhere")
    parts = fields.names("scram")
    if parts:
        try:
            user.scram = bytes.fromhex(parts[0]), bytes.fromhex(parts[1]), bytes.fromhex(parts[2]), int(parts[3])
        except (ValueError, IndexError):
            raise StoreError("its 'scram' is damaged") from None
    user.former = fields.text("former") if fields.has("former") else ""
    user.limits = fields.counts("limits")
    table.restore_user(user)


def _password(fields: Fields) -> PasswordHash | None:
    if not fields.has("hash"):
        return None
    text, algorithm = fields.text("hash"), fields.text("algorithm")
    return file_password(text) if algorithm == PLAIN else read_hash(text, algorithm)


def restore_permission(table: AccessTable, fields: Fields) -> None:
    """Set a permission in the table. Raises StoreError, NotFound."""
    permission = Permission(fields.text("configure"), fields.text("write"), fields.text("read"))
    table.restore_permission(PermissionRecord(fields.text("user"), fields.text("vhost"), permission))


def restore_topic_permission(table: AccessTable, fields: Fields) -> None:
    """Set a topic permission in the table. Raises StoreError, NotFound."""
    permission = TopicPermission(fields.text("write"), fields.text("read"))
    user, vhost, exchange = fields.text("user"), fields.text("vhost"), fields.text("exchange")
    table.restore_permission(TopicPermissionRecord(user, vhost, exchange, permission))


def restore_scram_secret(table: AccessTable, fields: Fields) -> None:
    """Set the secret of the salts for SCRAM. Raises StoreError."""
    try:
        table.scram_secret.octets = bytes.fromhex(fields.text("secret"))
    except ValueError:
        raise StoreError("its 'secret' is damaged") from None


def restore_vhost_limits(table: AccessTable, fields: Fields) -> None:
    """Set the limits of a virtual host in the table. Raises StoreError, BrokerError."""
    table.set_vhost_limits(fields.text("vhost"), fields.counts("limits"))
