"""PostgreSQL store: for more than one machine, and with a standby broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.store.postgres.store import PostgresStore

SCHEMES = ("postgresql://", "postgres://")
"""URL schemes of a PostgreSQL store."""


def postgres_store(url: str, makes: bool = True) -> PostgresStore:
    """Return the store at a URL, not yet opened. With `makes` a missing schema is created.

    Raises ConfigError if the URL is invalid or psycopg is missing.
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
