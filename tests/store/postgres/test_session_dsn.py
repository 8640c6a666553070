"""Addresses of PostgreSQL stores: valid ones, invalid ones, and their display names."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.store.postgres import postgres_store


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:secret@h/db?schema=", "schema '' of the store's URL: a name has 1 to 63 bytes"),
        ("postgresql://u:secret@h/db?schema=pg_x", "schema 'pg_x' of the store's URL: a name has 1 to 63 bytes"),
        (f"postgresql://u:secret@h/db?schema={'ü' * 32}", "a name has 1 to 63 bytes"),
        ("postgresql://u:secret@h/db?colour=red", "cannot be used: invalid URI query parameter: \"colour\""),
        ("postgresql://u@h/db?passwordsecret", "the store's URL cannot be used: it is not a valid PostgreSQL URL"),
        ("postgresql://u:secret@[h/db", "the store's URL cannot be used: "),
        ("postgresql://u:%zzsecret@h/db", "the store's URL cannot be used: "),
        ("http://u:secret@h/db", "the store's URL cannot be used: "),
    ],
)  # fmt: skip
def test_url_that_cannot_be_meant_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        postgres_store(url)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


def test_store_is_named_by_database_and_host() -> None:
    assert (
        str(postgres_store("postgresql://u:secret@db1:6000/orders").address) == "database 'orders' at 'db1', port 6000"
    )
    address = postgres_store("postgresql://u:secret@/orders?host=/run/pg&schema=eu").address
    assert str(address) == "schema 'eu' of database 'orders' at '/run/pg', port 5432"
