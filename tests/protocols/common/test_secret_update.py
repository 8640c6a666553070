"""Updates of secrets (connection.update-secret): newer tokens, and passwords that nobody asks for again."""

from __future__ import annotations

import jwt
import pytest

from penstock.access.permission import READ, WRITE
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, method_frame
from penstock.wire.sasl import plain_response
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition
from tests.support.amqp10_management import ManagementClient, request_message
from tests.support.driven_connection import Dialogue, make_driver, methods
from tests.support.tokens import policy, rsa_key, token

WALL = 1_800_000_000.0


def make() -> BrokerDriver:
    driver = make_driver()
    driver.broker.wall_offset = WALL
    driver.services.tokens = policy()
    return driver


def client(driver: BrokerDriver, *scopes: str, **claims: object) -> Dialogue:
    return Dialogue(driver, password=token(*scopes, **claims))


def update(dialogue: Dialogue, secret: str) -> list[Method]:
    request = method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=secret.encode(), reason="it expires")
    return methods(dialogue.say(request))


def test_a_token_is_a_password_and_names_the_user() -> None:
    dialogue = client(make(), "penstock.read:*/*")
    assert dialogue.connection.user == "anna"
    assert dialogue.connection.access.rules.permits(READ, "/", "q")


def test_a_newer_token_has_other_scopes_and_another_end() -> None:
    dialogue = client(make(), "penstock.read:*/*", exp=WALL + 60)
    rules = dialogue.connection.access.rules
    epoch = rules.epoch.count
    assert [method.name for method in update(dialogue, token("penstock.write:*/*", exp=WALL + 600))] == [
        "connection.update-secret-ok"
    ]
    assert (rules.permits(READ, "/", "q"), rules.permits(WRITE, "/", "q")) == (False, True)
    assert rules.epoch.count > epoch
    assert dialogue.listen(629.0) == []
    assert [method.name for method in methods(dialogue.listen(630.0))] == ["connection.close"]


@pytest.mark.parametrize(
    "secret",
    [
        "guest",
        token("penstock.read:*/*", sub="eve"),
        token("penstock.read:*/*", key=rsa_key("another")),
        token("penstock.read:*/*", exp=WALL - 60),
        "",
    ],
)
def test_a_secret_that_is_no_token_of_the_user_closes_the_connection(secret: str) -> None:
    (close,) = update(client(make(), "penstock.read:*/*"), secret)
    assert (close.name, close.args["reply_code"]) == ("connection.close", 530)
    assert close.args["reply_text"] == "NOT_ALLOWED - New secret was refused by one of the backends"


def test_a_user_with_a_password_is_not_asked_for_it_again() -> None:
    dialogue = Dialogue(make())
    assert [method.name for method in update(dialogue, "whatever")] == ["connection.update-secret-ok"]
    assert dialogue.connection.user == "guest"


def test_a_refused_token_is_answered_as_a_wrong_password() -> None:
    driver = make()
    dialogue = Dialogue(driver)
    other = driver.connect(dialogue.connection.peer)
    other.receive(b"AMQP\x00\x00\x09\x01")
    other.take_output()
    response = plain_response("anna", jwt.encode({"sub": "anna"}, rsa_key(), "RS256", {"kid": "one"}))
    capabilities = {"capabilities": {"authentication_failure_close": True}}
    other.receive(
        method_frame(0, spec.CONNECTION_START_OK, client_properties=capabilities, mechanism="PLAIN", response=response)
    )
    assert not other.logged_in
    assert b"ACCESS_REFUSED" in other.take_output()
    refusal = "login refused: audience of the token does not include 'penstock', resource-server-id"
    assert [line.text for line in driver.log_queue.take(9) if line.text.endswith(refusal)]


def amqp10_client(exp: float) -> ManagementClient:
    driver = make()
    driver.connection_limits.initial_frame_max = 16_384
    given = token("penstock.read:*/*", exp=exp)
    return ManagementClient(Amqp10Dialogue(driver, password=given))


def test_a_newer_token_over_the_management_node_of_amqp_1_0() -> None:
    client = amqp10_client(WALL - 20)
    rules = client.dialogue.connection.access.rules
    newer = token("penstock.write:*/*", exp=WALL)
    assert client.ask("PUT", "/auth/tokens", newer.encode()).status == 204
    assert (rules.permits(READ, "/", "q"), rules.permits(WRITE, "/", "q")) == (False, True)
    heard = client.dialogue.listen(29.0)
    assert "close" not in [each.name for each in heard], heard
    (closed,) = [each for each in client.dialogue.listen(30.0) if each.name == "close"]
    assert "has expired" in str(closed.field("error"))


def test_a_token_over_amqp_1_0_that_is_refused_ends_the_connection() -> None:
    client = amqp10_client(WALL + 60)
    message = request_message("PUT", "/auth/tokens", token("penstock.read:*/*", sub="eve").encode())
    heard = client.dialogue.say(client.dialogue.transfer(message, 20, settled=True))
    (closed,) = [each for each in heard if each.name == "close"]
    assert condition(closed) == "amqp:unauthorized-access"
    assert amqp10_client(WALL + 60).ask("PUT", "/auth/tokens", "text").status == 400
