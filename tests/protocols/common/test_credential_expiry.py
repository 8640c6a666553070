"""Connections of tokens end with them, by the wall clock."""

from __future__ import annotations

import pytest

from penstock.protocols.common.credential_expiry import CredentialExpiry
from tests.support.driven_connection import Dialogue, make_driver, methods

WALL = 1_800_000_000.0


@pytest.fixture
def client() -> Dialogue:
    driver = make_driver()
    driver.broker.wall_offset = WALL
    return Dialogue(driver)


def test_the_connection_is_closed_when_its_token_has_expired(client: Dialogue) -> None:
    client.connection.login.expire(client.connection, WALL + 60)
    assert client.listen(59.0) == []
    (close,) = methods(client.listen(60.0))
    assert (close.name, close.args["reply_code"]) == ("connection.close", 403)
    words = f"provided JWT token has expired at timestamp {WALL + 60:.0f} (validated at {WALL + 60:.0f})"
    assert close.args["reply_text"] == f"ACCESS_REFUSED - {words}"


def test_a_newer_token_puts_the_end_off(client: Dialogue) -> None:
    client.connection.login.expire(client.connection, WALL + 60)
    client.connection.login.expire(client.connection, WALL + 120)
    assert client.listen(119.0) == []
    client.connection.login.expire(client.connection, float("inf"))
    assert client.listen(1_000.0) == []


def test_the_wall_clock_counts_also_when_it_is_set_back(client: Dialogue) -> None:
    client.connection.login.expire(client.connection, WALL + 60)
    client.driver.broker.wall_offset = WALL - 100
    assert client.listen(60.0) == []
    assert client.listen(159.0) == []
    assert [method.name for method in methods(client.listen(160.0))] == ["connection.close"]


def test_a_connection_that_is_gone_expires_no_more(client: Dialogue) -> None:
    expiry = CredentialExpiry(client.connection)
    expiry.set(WALL + 60)
    client.driver.disconnect(client.connection)
    expiry.end()
    expiry.end()
    expiry.set(WALL + 70)
    assert client.driver.next_deadline() is None
