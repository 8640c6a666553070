"""Logins: delayed refusals, slow checks, inline checks, expiry of tokens, and updates of secrets."""

from __future__ import annotations

import jwt
import pytest

from penstock.access.permission import READ, WRITE
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.login import (
    RENEWAL_WORK,
    VERIFYING_OCTETS_MAX,
    CredentialExpiry,
    InlineAuthenticator,
    Verification,
)
from penstock.connections.login_limits import RENEWALS_A_S, WAITING_MOST
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, method_frame
from penstock.wire.sasl import plain_response
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition
from tests.support.amqp10_management import ManagementClient, request_message
from tests.support.driven_connection import Dialogue, cut, make_driver, methods, output_of
from tests.support.held_logins import HeldAuthenticator, holding, logging_in
from tests.support.logging_in import log_in
from tests.support.tokens import policy, rsa_key, token


def test_wrong_password_is_answered_late_and_a_right_password_at_once(driver: BrokerDriver) -> None:
    for _ in range(3):
        assert log_in(driver, "wrong").state is ConnectionState.CLOSED
    late = log_in(driver, "wrong")
    assert late.state is not ConnectionState.CLOSED
    assert driver.next_deadline() == 0.5
    assert log_in(driver, "guest").logged_in
    driver.begin(0.4)
    driver.run_turn()
    assert late.state is not ConnectionState.CLOSED
    driver.begin(0.5)
    driver.run_turn()
    assert late.state is ConnectionState.CLOSED
    assert driver.services.backoff.waits() == 0


def test_login_that_waits_for_a_refusal_may_try_no_second_password(driver: BrokerDriver) -> None:
    for _ in range(4):
        late = log_in(driver, "wrong")
    login = plain_response("guest", "guest")
    late.receive(method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=login))
    assert not late.logged_in
    assert driver.services.backoff.waits() == 1
    driver.disconnect(late)
    assert driver.services.backoff.waits() == 0
    assert driver.next_deadline() is None


def held_login(
    password: str = "guest", address: str = "10.0.0.1"
) -> tuple[BrokerDriver, HeldAuthenticator, Connection]:
    """A client whose password is being verified."""
    driver, authenticator = holding()
    connection = logging_in(driver, address, password)
    connection.take_output()
    connection.user = "guest"
    return driver, authenticator, connection


def test_login_with_a_slow_check_is_answered_in_a_later_turn() -> None:
    driver, authenticator, connection = held_login()
    assert (connection.state, output_of(connection)) == (ConnectionState.VERIFYING, b"")
    assert connection.state.word() == "start"
    authenticator.let_go()
    assert (connection.state, connection.logged_in) == (ConnectionState.TUNE, True)
    assert decode_method(cut(output_of(connection))[0][2]).name == "connection.tune"
    driver, authenticator, connection = held_login("wrong")
    authenticator.let_go()
    assert (connection.state, connection.logged_in) == (ConnectionState.CLOSED, False)
    assert driver.services.backoff.waits() == 0, "the first wrong ones are answered at once"


def test_input_waits_for_the_outcome_but_is_read_within_a_bound() -> None:
    driver, authenticator, connection = held_login()
    tune_ok = method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=9, frame_max=0, heartbeat=0)
    open_ = method_frame(0, spec.CONNECTION_OPEN, virtual_host="/")
    assert not driver.receive(connection, tune_ok, 1.0), "its socket is read on"
    driver.receive(connection, open_, 1.0)
    assert connection.state is ConnectionState.VERIFYING
    authenticator.let_go()
    driver.end_turn(0.0, 2.0)
    driver.serve(2.0)
    assert connection.state is ConnectionState.RUNNING
    driver, authenticator, connection = held_login()
    assert driver.receive(connection, b"x" * VERIFYING_OCTETS_MAX, 1.0), "too much: its socket is read no more"


def test_connection_that_closes_during_the_login_drops_the_attempt() -> None:
    driver, authenticator, connection = held_login()
    (attempt,) = authenticator.held
    driver.disconnect(connection)
    assert attempt.cancelled
    assert (connection.busy, connection.login.attempt) == (0, None)
    attempt.conclude()
    assert not connection.logged_in
    assert driver.services.logins.count("10.0.0.1") == 0


def test_connection_closed_by_the_broker_during_the_login_is_not_logged_in() -> None:
    _, authenticator, connection = held_login()
    connection.shut_down()
    authenticator.let_go()
    assert (connection.state, connection.logged_in) == (ConnectionState.CLOSED, False)


def test_client_is_refused_if_too_many_logins_wait() -> None:
    driver, authenticator, connection = held_login()
    authenticator.held.pop().turn_away()
    assert connection.state is ConnectionState.CLOSED
    assert driver.log_queue.take(1)[0].text.endswith("login refused: too many logins are being verified")


def test_client_that_hangs_up_after_wrong_guesses_gains_no_guesses(driver: BrokerDriver) -> None:
    driver.services.backoff.succeeded("guest", "10.0.0.2")
    for _ in range(3 + WAITING_MOST):
        driver.disconnect(log_in(driver, "wrong", "10.0.0.1"))
    assert driver.services.backoff.waits() == WAITING_MOST
    refused = log_in(driver, "guest", "10.0.0.1")
    assert (refused.state, refused.logged_in) == (ConnectionState.CLOSED, False)
    driver.begin(9.0)
    driver.run_turn()
    assert driver.services.backoff.waits() == 0


class Noted(Verification):
    def __init__(self, calls: list[str]) -> None:
        super().__init__("10.0.0.1")
        self.calls = calls

    def run(self) -> None:
        self.calls.append("run")

    def conclude(self) -> None:
        self.calls.append("conclude")


class Leaving(Noted):
    def run(self) -> None:
        super().run()
        self.cancelled = True


def test_inline_verification_is_run_and_concluded_at_once() -> None:
    calls: list[str] = []
    InlineAuthenticator().start(Noted(calls))
    assert calls == ["run", "conclude"]


def test_inline_verification_that_was_cancelled_is_not_concluded() -> None:
    calls: list[str] = []
    InlineAuthenticator().start(Leaving(calls))
    assert calls == ["run"]
    noted = Noted(calls)
    InlineAuthenticator().cancel(noted)
    assert noted.cancelled


WALL = 1_800_000_000.0


@pytest.fixture
def client() -> Dialogue:
    driver = make_driver()
    driver.broker.wall_offset = WALL
    return Dialogue(driver)


def test_connection_is_closed_when_the_token_has_expired(client: Dialogue) -> None:
    client.connection.login.expire(client.connection, WALL + 60)
    assert client.listen(59.0) == []
    (close,) = methods(client.listen(60.0))
    assert (close.name, close.args["reply_code"]) == ("connection.close", 403)
    words = f"provided JWT token has expired at timestamp {WALL + 60:.0f} (validated at {WALL + 60:.0f})"
    assert close.args["reply_text"] == f"ACCESS_REFUSED - {words}"


def test_newer_token_postpones_the_expiry(client: Dialogue) -> None:
    client.connection.login.expire(client.connection, WALL + 60)
    client.connection.login.expire(client.connection, WALL + 120)
    assert client.listen(119.0) == []
    client.connection.login.expire(client.connection, float("inf"))
    assert client.listen(1_000.0) == []


def test_token_expiry_follows_the_wall_clock_when_set_back(client: Dialogue) -> None:
    client.connection.login.expire(client.connection, WALL + 60)
    client.driver.broker.wall_offset = WALL - 100
    assert client.listen(60.0) == []
    assert client.listen(159.0) == []
    assert [method.name for method in methods(client.listen(160.0))] == ["connection.close"]


def test_closed_connection_has_no_expiry(client: Dialogue) -> None:
    expiry = CredentialExpiry(client.connection)
    expiry.set(WALL + 60)
    client.driver.disconnect(client.connection)
    expiry.end()
    expiry.end()
    expiry.set(WALL + 70)
    assert client.driver.next_deadline() is None


def make() -> BrokerDriver:
    driver = make_driver()
    driver.broker.wall_offset = WALL
    driver.services.tokens = policy()
    return driver


def client_of_secret_update(driver: BrokerDriver, *scopes: str, **claims: object) -> Dialogue:
    return Dialogue(driver, password=token(*scopes, **claims))


def update(dialogue: Dialogue, secret: str) -> list[Method]:
    request = method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=secret.encode(), reason="it expires")
    return methods(dialogue.say(request))


def test_token_is_a_password_and_names_the_user() -> None:
    dialogue = client_of_secret_update(make(), "penstock.read:*/*")
    assert dialogue.connection.user == "anna"
    assert dialogue.connection.access.rules.permits(READ, "/", "q")


def test_newer_token_has_other_scopes_and_another_expiry() -> None:
    dialogue = client_of_secret_update(make(), "penstock.read:*/*", exp=WALL + 60)
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
def test_secret_without_a_token_of_the_user_closes_the_connection(secret: str) -> None:
    (close,) = update(client_of_secret_update(make(), "penstock.read:*/*"), secret)
    assert (close.name, close.args["reply_code"]) == ("connection.close", 530)
    assert close.args["reply_text"] == "NOT_ALLOWED - New secret was refused by one of the backends"


def renewals(number: int) -> bytes:
    secret = token("penstock.read:*/*").encode()
    return method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=secret, reason="it expires") * number


def test_token_renewals_of_a_user_are_verified_at_a_bounded_rate() -> None:
    driver = make()
    eager, other = (
        client_of_secret_update(driver, "penstock.read:*/*"),
        client_of_secret_update(driver, "penstock.read:*/*", sub="eve"),
    )
    eager.connection.receive_later(renewals(RENEWALS_A_S + 50))
    driver.begin(1.0)
    for _ in range(RENEWALS_A_S):
        driver.scheduler.go_on(eager.connection)
        driver.run_turn()
        driver.end_turn(0.0, 1.0)
        driver.serve(1.0)
    answered = methods(cut(output_of(eager.connection)))
    assert len(answered) == RENEWALS_A_S
    assert eager.connection.work_done >= RENEWALS_A_S * RENEWAL_WORK
    assert (eager.connection.busy, eager.connection.input_paused) == (1, True)
    assert driver.next_deadline() == pytest.approx(1.0 + 1 / RENEWALS_A_S)
    assert [method.name for method in update(other, token("penstock.read:*/*", sub="eve"))] == [
        "connection.update-secret-ok"
    ]
    driver.begin(1.0 + 1 / RENEWALS_A_S)
    driver.run_turn()
    assert [method.name for method in methods(cut(output_of(eager.connection)))] == ["connection.update-secret-ok"]


def test_renewal_that_waits_is_dropped_with_the_connection() -> None:
    driver = make()
    for _ in range(RENEWALS_A_S):
        driver.services.renewal_rate.reserve("anna", driver.broker.now)
    client = client_of_secret_update(driver, "penstock.read:*/*")
    assert update(client, token("penstock.read:*/*")) == []
    assert driver.next_deadline() is not None
    driver.disconnect(client.connection)
    assert driver.next_deadline() is None
    now = driver.broker.now
    assert driver.services.renewal_rate.reserve("anna", now) == pytest.approx(now + 1 / RENEWALS_A_S)


def test_secret_update_of_a_user_with_a_password_is_not_checked() -> None:
    dialogue = Dialogue(make())
    assert [method.name for method in update(dialogue, "whatever")] == ["connection.update-secret-ok"]
    assert dialogue.connection.user == "guest"


def test_refused_token_is_answered_as_a_wrong_password() -> None:
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
    assert b"ACCESS_REFUSED" in output_of(other)
    refusal = "login refused: audience of the token does not include 'penstock', resource-server-id"
    assert [line.text for line in driver.log_queue.take(9) if line.text.endswith(refusal)]


def amqp10_client(exp: float) -> ManagementClient:
    driver = make()
    driver.connection_limits.change(initial_frame_max=16_384)
    given = token("penstock.read:*/*", exp=exp)
    return ManagementClient(Amqp10Dialogue(driver, password=given))


def test_newer_token_is_accepted_by_the_amqp10_management_node() -> None:
    client_of_secret_update = amqp10_client(WALL - 20)
    rules = client_of_secret_update.dialogue.connection.access.rules
    newer = token("penstock.write:*/*", exp=WALL)
    assert client_of_secret_update.ask("PUT", "/auth/tokens", newer.encode()).status == 204
    assert (rules.permits(READ, "/", "q"), rules.permits(WRITE, "/", "q")) == (False, True)
    heard = client_of_secret_update.dialogue.listen(29.0)
    assert "close" not in [each.name for each in heard], heard
    (closed,) = [each for each in client_of_secret_update.dialogue.listen(30.0) if each.name == "close"]
    assert "has expired" in str(closed.field("error"))


def test_refused_token_over_amqp10_ends_the_connection() -> None:
    client_of_secret_update = amqp10_client(WALL + 60)
    message = request_message("PUT", "/auth/tokens", token("penstock.read:*/*", sub="eve").encode())
    heard = client_of_secret_update.dialogue.say(client_of_secret_update.dialogue.transfer(message, 20, settled=True))
    (closed,) = [each for each in heard if each.name == "close"]
    assert condition(closed) == "amqp:unauthorized-access"
    assert amqp10_client(WALL + 60).ask("PUT", "/auth/tokens", "text").status == 400
