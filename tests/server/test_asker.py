"""Asker: each field on its way to another process, and the rights that it has there."""

from __future__ import annotations

import dataclasses
import json
from math import inf

import pytest

from penstock.access.back_end import ServedRules
from penstock.access.permission import Permission
from penstock.access.rules import UserRules
from penstock.access.tokens import TokenRules
from penstock.errors import ContentTooLarge
from penstock.server.asker import READERS, TEXT_MOST, Asker, AskerError, Grant
from tests.support.driven_connection import Dialogue, make_driver

WHOLE = Asker(
    user="ada", scopes=("read:west/*",), served_vhosts=("west",), served_tags=("monitoring",),
    served_permission=("", "^a", ".*"), expires_at=12.5, address="10.0.0.1:4711", protocol="AMQP 1.0", vhost="west",
    connection="7", shard="2", reply_to="answers", label="web-1 (con:7)",
)  # fmt: skip
FIELDS = [each.name for each in dataclasses.fields(Asker)]


def test_asker_is_read_as_it_was_written() -> None:
    assert Asker.of(WHOLE.text()) == WHOLE
    assert Asker.of(Asker(user="ada").text()) == Asker(user="ada")
    assert list(READERS) == FIELDS


def test_asker_fits_into_a_header() -> None:
    text = Asker(user="ada\r\nx: y", label="ä€").text()
    assert text.isascii()
    assert text.isprintable()
    assert Asker.of(text).user == "ada\r\nx: y"


@pytest.mark.parametrize("name", FIELDS)
def test_asker_without_a_field_or_with_another_type_is_refused(name: str) -> None:
    row = json.loads(WHOLE.text())
    with pytest.raises(AskerError, match="has other fields than this version"):
        Asker.of(json.dumps({key: value for key, value in row.items() if key != name}))
    with pytest.raises(AskerError, match=f"field {name} of an asker has another type"):
        Asker.of(json.dumps({**row, name: {"a": 1}}))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000])
def test_text_that_is_no_asker_is_refused(text: str) -> None:
    with pytest.raises(AskerError):
        Asker.of(text)


def test_asker_with_too_many_rights_is_refused_with_the_bound() -> None:
    with pytest.raises(ContentTooLarge, match=f"the rights of user 'ada' have .* {TEXT_MOST:,} is the most"):
        Asker(user="ada", scopes=("x" * TEXT_MOST,)).text()


def test_rules_of_token_back_end_and_table_are_those_of_the_login() -> None:
    broker = make_driver().broker
    token = Asker.of_http("ada", TokenRules(["read:west/a", "tag:monitoring"]), 9.0, "10.0.0.1:1")
    rules = Asker.of(token.text()).rules(broker)
    assert isinstance(rules, TokenRules)
    assert rules.scopes() == TokenRules(["read:west/a", "tag:monitoring"]).scopes()
    assert token.ends_at() == 9.0
    permission = Permission("", "^a", ".*")
    served = ServedRules("ada", ["west"], ["management"], permission, broker.access.expressions)
    rules = Asker.of(Asker.of_http("ada", served, inf, "").text()).rules(broker)
    assert isinstance(rules, ServedRules)
    assert (rules.vhosts(), rules.tags(), rules.permission.texts()) == (["west"], ["management"], permission.texts())
    plain = Asker.of_http("guest", UserRules(broker.access, "guest"), inf, "")
    assert Grant.of(plain.rules(broker)) == Grant()
    assert plain.rules(broker).has_tag("administrator")
    assert plain.ends_at() == inf


def test_asker_of_a_connection_has_its_origin_for_the_audit_log() -> None:
    driver = make_driver()
    connection = Dialogue(driver, peer="10.0.0.1:4711").connection
    asker = Asker.of(Asker.of_connection(connection, "2").text())
    assert asker.actor().fields() == {
        "user": "guest", "address": "10.0.0.1:4711", "protocol": "AMQP 0-9-1", "vhost": "/",
        "connection": str(connection.number),
    }  # fmt: skip
    assert (asker.shard, asker.label) == ("2", connection.name())
    assert asker.access(driver.broker, "/").user == "guest"
