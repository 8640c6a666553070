"""Asker: the user of a request on its way to another process of the node.

The process that has logged the user in sends the name, the rights that a token or a back end has granted, and the
origin, for the audit log. The process that carries the request out checks rights by these rules, in its own table.

An asker is the header `penstock-asker` of requests at sockets inside a node, and of nothing else (`inside.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf
from typing import Final, NamedTuple

from penstock.access.back_end import ServedRules
from penstock.access.permission import Permission
from penstock.access.rules import ConnectionAccess, Rules, UserRules
from penstock.access.tokens import TokenRules
from penstock.connections.audit_trail import Actor, actor_of
from penstock.connections.connection import Connection
from penstock.connections.connection_names import label
from penstock.core.broker import Broker
from penstock.errors import ContentTooLarge, PenstockError
from penstock.server.record_fields import permission_field, text_field, texts_field, texts_or_none_field, time_field

TEXT_MOST: Final = 48 * 1024
"""Most characters of an asker: a header of HTTP has it, whose head has 64 KiB at most."""


class AskerError(PenstockError):
    """A text that is no asker; the error quotes no value."""


class Grant(NamedTuple):
    """Rights that a token or a back end has granted at the login; empty for a user of the table."""

    scopes: tuple[str, ...] | None = None
    """Scopes of the token; None without a token."""
    vhosts: tuple[str, ...] | None = None
    """Virtual hosts that a back end permits; None if no back end was asked."""
    tags: tuple[str, ...] = ()
    """Tags that the back end has named."""
    permission: tuple[str, ...] = ("", "", "")
    """Expressions that may be configured, written and read in these virtual hosts."""

    @classmethod
    def of(cls, rules: Rules) -> Grant:
        """Return the grant of the rules of a login."""
        if isinstance(rules, TokenRules):
            return cls(tuple(rules.scopes()))
        if not isinstance(rules, ServedRules):
            return cls()
        return cls(None, tuple(rules.vhosts()), tuple(rules.tags()), rules.permission.texts())

    def rules(self, user: str, broker: Broker) -> Rules | None:
        """Return the rules in a broker; None if its table of users decides."""
        if self.scopes is not None:
            return TokenRules(self.scopes)
        if self.vhosts is None:
            return None
        return ServedRules(user, self.vhosts, self.tags, Permission(*self.permission), broker.access.expressions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """User of a request, with its origin."""

    user: str
    scopes: tuple[str, ...] | None = None
    served_vhosts: tuple[str, ...] | None = None
    served_tags: tuple[str, ...] = ()
    served_permission: tuple[str, ...] = ("", "", "")
    """Rights of a token or of a back end: the fields of `Grant`."""
    expires_at: float | None = None
    """Wall-clock time in seconds at which the credentials expire; None for never."""
    address: str = ""
    """Host and port of the client."""
    protocol: str = "http"
    """Name of the protocol, as the audit log has it."""
    vhost: str = ""
    """Virtual host of the client's connection; empty for HTTP."""
    connection: str = ""
    """Number of the connection in its process; empty for HTTP."""
    shard: str = ""
    """Name of the shard whose process has the connection; empty for HTTP."""
    reply_to: str = ""
    """Name of the queue for answers, which lists leave out; empty for HTTP."""
    label: str = ""
    """Name of the client for people."""

    @classmethod
    def of_connection(cls, connection: Connection, shard: str, reply_to: str = "") -> Asker:
        """Return the asker that a connection of a shard is; `reply_to` is its queue for answers."""
        actor = actor_of(connection)
        return cls.with_rules(
            connection.access.rules, connection.login.expires_at(),
            user=connection.user, address=actor.address, protocol=actor.protocol, vhost=actor.vhost,
            connection=actor.connection, shard=shard, reply_to=reply_to, label=label(connection),
        )  # fmt: skip

    @classmethod
    def of_http(cls, user: str, rules: Rules, expires_at: float, address: str) -> Asker:
        """Return the asker of a request over HTTP."""
        return cls.with_rules(rules, expires_at, user=user, address=address, label=f"{user} over HTTP")

    @classmethod
    def with_rules(cls, rules: Rules, expires_at: float, **named: str) -> Asker:
        """Return an asker with the rights of a login; `named` are the other fields."""
        grant = Grant.of(rules)
        return cls(
            scopes=grant.scopes,
            served_vhosts=grant.vhosts,
            served_tags=grant.tags,
            served_permission=grant.permission,
            expires_at=None if expires_at == inf else expires_at,
            **named,
        )

    def text(self) -> str:
        """Return the asker as a text in ASCII, without control characters.

        Raises ContentTooLarge (311) for a token or back end that has granted too many rights.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        text = json.dumps(values, separators=(",", ":"))
        if len(text) > TEXT_MOST:
            raise ContentTooLarge(
                f"the rights of user '{self.user}' have {len(text):,} characters; {TEXT_MOST:,} is the most that a "
                "request to another shard may have"
            )
        return text

    @classmethod
    def of(cls, text: str) -> Asker:
        """Return the asker of a text. Raises AskerError."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise AskerError("an asker is no JSON") from None
        if not isinstance(values, dict) or values.keys() != READERS.keys():
            raise AskerError("an asker has other fields than this version")
        read: dict[str, object] = {}
        for name, reader in READERS.items():
            try:
                read[name] = reader(values[name])
            except (TypeError, ValueError):
                raise AskerError(f"field {name} of an asker has another type") from None
        return cls(**read)  # type: ignore[arg-type]  # READERS has a reader for each field.

    def rules(self, broker: Broker) -> Rules:
        """Return the rules in a broker; those of its table of users unless a token or back end has granted rights."""
        grant = Grant(self.scopes, self.served_vhosts, self.served_tags, self.served_permission)
        return grant.rules(self.user, broker) or UserRules(broker.access, self.user)

    def access(self, broker: Broker, vhost: str) -> ConnectionAccess:
        """Return the access in a virtual host of a broker."""
        return ConnectionAccess(self.rules(broker), self.user, vhost)

    def ends_at(self) -> float:
        """Return the wall-clock time at which the credentials expire; infinity for never."""
        return inf if self.expires_at is None else self.expires_at

    def actor(self) -> Actor:
        """Return the asker for the audit log."""
        return Actor(self.user, self.address, self.protocol, self.vhost, self.connection)


READERS: Final[dict[str, Callable[[object], object]]] = {
    "user": text_field,
    "scopes": texts_or_none_field,
    "served_vhosts": texts_or_none_field,
    "served_tags": texts_field,
    "served_permission": permission_field,
    "expires_at": time_field,
    "address": text_field,
    "protocol": text_field,
    "vhost": text_field,
    "connection": text_field,
    "shard": text_field,
    "reply_to": text_field,
    "label": text_field,
}
"""Readers of the fields in JSON, by name: all fields."""
