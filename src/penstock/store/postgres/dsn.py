"""Address of a PostgreSQL store: a URL of PostgreSQL's own form, and a schema of the database."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from penstock.errors import ConfigError

SCHEMA: Final = "penstock"
NAME_OCTETS: Final = 63
"""Longest name that PostgreSQL does not truncate (NAMEDATALEN - 1)."""
CONNECT_S: Final = 5
"""Seconds for connecting to each host."""
DEFAULTS: Final[dict[str, str | int | None]] = {
    "connect_timeout": CONNECT_S,
    "application_name": "penstock",
    # A server whose host has died is noticed after 5 + 3 x 2 s while we wait for an answer, and after 10 s if it does
    # not even accept what we send.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Values of libpq's parameters that the URL does not set."""


class DatabaseAddress:
    """Parsed URL of a store; it may hold a password, which is never shown."""

    def __init__(self, url: str) -> None:
        """Parse `postgresql://user:password@host:port/database?schema=penstock&...`; other query fields are libpq's.

        Raises ConfigError if the URL is invalid.
        """
        address, _, query = url.partition("?")
        parameters = [each for each in query.split("&") if each]
        ours = [each for each in parameters if each.startswith("schema=")]
        self.schema = unquote(ours[-1].removeprefix("schema=")) if ours else SCHEMA
        """Schema with our tables."""
        if not 1 <= len(self.schema.encode()) <= NAME_OCTETS or self.schema.startswith("pg_") or "\0" in self.schema:
            raise ConfigError(
                f"schema '{self.schema}' of the store's URL: a name has 1 to {NAME_OCTETS} octets "
                "and does not begin with pg_"
            )
        _check_authority(address)
        given = _understood(f"{address}?{'&'.join(each for each in parameters if each not in ours)}")
        whole: dict[str, str | int | None] = {**DEFAULTS, **given, "client_encoding": "utf8"}
        self.conninfo = make_conninfo("", **whole)
        """Connection string for libpq, with the password if one was given."""
        usual = {
            option.keyword.decode(): option.val.decode() for option in Conninfo.get_defaults() if option.val is not None
        }
        known = usual | {name: str(value) for name, value in given.items() if value}
        self.user = known.get("user", "")
        self.database = known.get("dbname") or self.user
        self.host = known.get("host") or known.get("hostaddr") or "localhost"
        self.port = known.get("port", "5432")

    def __str__(self) -> str:
        """Return the address for people, without the password."""
        schema = "" if self.schema == SCHEMA else f"schema '{self.schema}' of "
        return f"{schema}database '{self.database}' at '{self.host}', port {self.port}"


def _check_authority(address: str) -> None:
    """Reject a password with @ or / in it: its rest would be taken for a host or a database. Raises ConfigError."""
    authority, _, path = address.partition("://")[2].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConfigError("the store's URL has an @ or a / in its user or password: write them as %40 and %2F")


def _understood(url: str) -> dict[str, str | int | None]:
    """Return libpq's parameters in a URL. Raises ConfigError, whose text never holds a password."""
    try:
        if not url.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError
        return dict(conninfo_to_dict(url))
    except psycopg.Error as error:
        text = str(error).strip()
        # libpq repeats what it does not understand, often the whole URL; show only the name of a parameter.
        named = text.startswith("invalid URI query parameter") and "@" not in url.partition("?")[2]
        reason = text if named else "it is not a valid PostgreSQL URL"
    raise ConfigError(
        f"the store's URL cannot be used: {reason}; it looks like postgresql://user@host:5432/database?schema={SCHEMA}"
    )
