"""Users, their permissions and limits, policies and parameters: everything that is said of one."""

from __future__ import annotations

from typing import Final

from penstock.access.password_hash import PLAIN, SHA256
from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import User
from penstock.core.settings.parameters import Parameter
from penstock.core.settings.policies import Policy
from penstock.describe.table import Field, Reading, Row, Table


def permission_row(permission: Permission) -> Row:
    """Return the expressions of a permission."""
    return {"configure": permission.configure, "write": permission.write, "read": permission.read}


def topic_row(permission: TopicPermission) -> Row:
    """Return the expressions of a topic permission."""
    return {"write": permission.write, "read": permission.read}


def permissions_of(user: User) -> list[Row]:
    """Return the permissions of a user, with their virtual hosts."""
    return [{"vhost": vhost, **permission_row(each)} for vhost, each in user.permissions.items()]


def topics_of(user: User, only: str | None = None) -> list[Row]:
    """Return the topic permissions of a user, with virtual hosts and exchanges; those of one virtual host, or all."""
    return [
        {"vhost": vhost, "exchange": exchange, **topic_row(each)}
        for vhost, topics in user.topic_permissions.items()
        for exchange, each in topics.items()
        if only is None or vhost == only
    ]


def _hash(user: User, at: Reading) -> object:
    """Return the hash of the password. A user without one has an empty hash, as in RabbitMQ: its tools need both."""
    hashed = user.password_hash
    if hashed is None or hashed.algorithm == PLAIN:
        return {"password_hash": "", "hashing_algorithm": SHA256}
    return {"password_hash": hashed.text(), "hashing_algorithm": hashed.algorithm}


USER: Final[Table[User]] = Table(
    Field("name", lambda user, at: user.name),
    Field("tags", lambda user, at: user.tags),
    Field("limits", lambda user, at: dict(user.limits)),
    Field("hash.*", _hash),
    Field("penstock.password", lambda user, at: user.password_hash is not None),
    Field("penstock.source", lambda user, at: user.source),
)
"""A password that is not shown is there all the same, and `penstock.password` tells it."""


def user_row(user: User) -> Row:
    """Return a user with its permissions, without its password."""
    return {
        "name": user.name,
        "tags": user.tags,
        "limits": dict(user.limits),
        **USER.own(user, Reading(0.0)),
        "everywhere": user.everywhere,
        "permissions": permissions_of(user),
        "topic_permissions": topics_of(user),
    }


def policy_row(policy: Policy) -> Row:
    """Return a policy in RabbitMQ's form."""
    return {"vhost": policy.vhost, "name": policy.name, **policy.fields()}


def parameter_row(parameter: Parameter) -> Row:
    """Return a parameter in RabbitMQ's form; a global one has neither component nor virtual host."""
    row: Row = {"name": parameter.name, "value": parameter.value}
    return {**row, "component": parameter.component, "vhost": parameter.vhost} if parameter.component else row
