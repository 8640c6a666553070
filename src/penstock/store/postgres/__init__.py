"""The store in a PostgreSQL database: for those who outgrow one machine, and want another broker to stand by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.store.postgres.store import PostgresStore

SCHEMES = ("postgresql://", "postgres://")
"""How a URL begins that means such a store."""


def postgres_store(url: str, makes: bool = True) -> PostgresStore:
    """Return the store at a URL, not yet opened; if it is not there, `makes` says that it is to be made then.

    Raises ConfigError: it cannot be meant, psycopg is missing.
    """
    try:
        from penstock.store.postgres.store import PostgresStore
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "psycopg":
            raise
        raise ConfigError(
            "a store in PostgreSQL needs psycopg, which is not installed: pip install 'penstock[postgres]'"
        ) from None
    return PostgresStore(url, makes)
