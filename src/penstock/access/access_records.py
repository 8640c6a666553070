"""Durable records of the table of users, and the interface of their recorder."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import User


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
    """Secret of the salts for SCRAM that belong to no stored user; it outlives the broker, as other salts do."""

    def __init__(self) -> None:
        self.octets: bytes = b""
        """The secret; empty until SCRAM is used."""


AccessRecord = User | PermissionRecord | TopicPermissionRecord | VhostLimits | ScramSecret


@mypyc_attr(allow_interpreted_subclasses=True)
class AccessRecorder:
    """Recorder of changes of the table; this one keeps nothing."""

    def check_writable(self) -> None:
        """Check that a change can be recorded. Raises ResourceError (506)."""

    def change(self, record: AccessRecord) -> None:
        """Record what was added or changed."""

    def forget(self, record: AccessRecord) -> None:
        """Record a deletion."""
