"""A user: its password, tags, permissions and limits; their durable records, and the interface of their recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.access.password_hash import PasswordHash, ScramKeys
from penstock.access.permission import ADMINISTRATOR, Permission, TopicPermission

FILE: Final = "file"
"""Source of a user in the settings file: no command changes it."""
STORE: Final = "store"
"""Source of a user that commands created and change."""
DEFAULT: Final = "default"
"""Source of guest, which exists while there are no others; it becomes a stored user when a user is stored."""
MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"
USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)
"""Names of limits of a user (RabbitMQ's)."""
VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)
"""Names of limits of a virtual host (RabbitMQ's)."""

EVERYTHING: Final = Permission(".*", ".*", ".*")
"""Permission of users with all rights."""


class User:
    """One user. Only the table of users changes it (`AccessTable`)."""

    def __init__(
        self,
        name: str,
        password_hash: PasswordHash | None = None,
        tags: Sequence[str] = (),
        source: str = STORE,
        scram: ScramKeys | None = None,
    ) -> None:
        self.name = name
        self.password_hash = password_hash
        """Hash of the password; None: no login with a password."""
        self.tags = list(tags)
        self.source = source
        self.scram = scram
        """Keys for SCRAM-SHA-256; None until they are derived from the password."""
        self.former: str = ""
        """Digest of the hash that scrypt has replaced at a login, so that the same hash in definitions is
        recognised.
        """
        self.everywhere: bool = False
        """True for a user with all rights in every virtual host where it has no permissions of its own."""
        self.permissions: dict[str, Permission] = {}
        """Permissions by virtual host. A user without one for a virtual host cannot enter it."""
        self.topic_permissions: dict[str, dict[str, TopicPermission]] = {}
        """Topic permissions by virtual host and exchange."""
        self.limits: dict[str, int] = {}
        """Limits by name; a missing limit means none."""

    def permission(self, vhost: str) -> Permission | None:
        """Return the permission in a virtual host; None if the user may not enter it."""
        own = self.permissions.get(vhost)
        return EVERYTHING if own is None and self.everywhere else own

    def is_administrator(self) -> bool:
        """Return whether the user has the tag administrator."""
        return ADMINISTRATOR in self.tags

    def octets(self) -> int:
        """Return the memory of the user's texts, in bytes; names of virtual hosts and exchanges included."""
        total = len(self.name) + sum(map(len, self.tags))
        for vhost, permission in self.permissions.items():
            total += len(vhost) + permission.octets()
        for vhost, topics in self.topic_permissions.items():
            total += len(vhost)
            for exchange, topic in topics.items():
                total += len(exchange) + topic.octets()
        return total


class PermissionRecord:
    """Permission of a user in a virtual host."""

    def __init__(self, user: str, vhost: str, permission: Permission) -> None:
        self.user = user
        self.vhost = vhost
        self.permission = permission


class TopicPermissionRecord:
    """Topic permission of a user for an exchange."""

    def __init__(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange
        self.permission = permission


class VhostLimits:
    """Limits of a virtual host, by name."""

    def __init__(self, vhost: str, limits: dict[str, int]) -> None:
        self.vhost = vhost
        self.limits = limits


class ScramSecret:
    """Secret of the salts for SCRAM of users without stored keys; it survives restarts, like other salts."""

    def __init__(self) -> None:
        self.octets: bytes = b""
        """The secret; empty until SCRAM is used."""


AccessRecord = User | PermissionRecord | TopicPermissionRecord | VhostLimits | ScramSecret


@mypyc_attr(allow_interpreted_subclasses=True)
class AccessRecorder:
    """Recorder of changes of the table; this class records nothing."""

    def check_writable(self) -> None:
        """Check that a change can be recorded. Raises ResourceError (506)."""

    def change(self, record: AccessRecord) -> None:
        """Record an added or changed object."""

    def forget(self, record: AccessRecord) -> None:
        """Record a deletion."""
