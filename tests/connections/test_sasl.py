"""Logins by SASL: each mechanism, the back-off, and responses that do not follow their mechanism."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient, ScramException, ScramMechanism

from penstock.access.password_hash import ScramKeys
from penstock.access.rules import CredentialCheck
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.login import LoginAttempt, LoginListener
from penstock.connections.login_limits import Backoff
from penstock.connections.peer import Peer
from penstock.connections.sasl import SCRAM_MAX, SCRAM_WORK, SaslExchange, SaslState, SaslStep
from penstock.connections.services import Services
from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver
from penstock.errors import CommandInvalid, FrameError
from penstock.protocols.amqp10.sasl_layer import MECHANISMS, RESPONSE_MAX
from penstock.settings.start import SASL_MECHANISMS
from penstock.wire.amqp091.codec import encode_table
from penstock.wire.sasl import plain_response
from tests.support.logging_in import peer_at
from tests.support.users import file_users, table_of

PASSWORDS = {"ada": "lovelace", "é,=": "pässword", "guest": "guest"}


def driver_with_passwords(passwords: dict[str, str] | None = None) -> BrokerDriver:
    core = Broker(Defaults())
    core.add_vhost("/")
    core.access.set_file_users(file_users(PASSWORDS if passwords is None else passwords))
    return BrokerDriver(core, ConnectionLimits(), "seed", "0")


class Outcome(LoginListener):
    step: SaslStep | None = None

    def on_login(self, check: CredentialCheck, refusal: str, delay_s: float) -> None:
        self.step = SaslStep(False, b"", refusal, delay_s)


class Exchange(SaslExchange):
    """An exchange whose passwords are verified at once."""

    @property
    def mechanism(self) -> str:
        return self._peer.mechanism

    def init(self, mechanism: str, initial_response: bytes | None) -> SaslStep:
        return self._verified(super().init(mechanism, initial_response))

    def respond(self, response: bytes) -> SaslStep:
        return self._verified(super().respond(response))

    def _verified(self, step: SaslStep) -> SaslStep:
        if step.check is None:
            return step
        outcome = Outcome()
        LoginAttempt(self._services, step.check, self._peer.network, outcome).start()
        assert outcome.step is not None
        return outcome.step


def exchange(driver: BrokerDriver | None = None, address: str = "127.0.0.1", subject: str = "") -> Exchange:
    services = (driver or driver_with_passwords()).services
    return Exchange(services, peer_at(address, subject), MECHANISMS, RESPONSE_MAX)


def accepted(step: SaslStep) -> bool:
    return not step.is_challenge and not step.refusal


def log_in_by_scram(login: SaslExchange, user: str, password: str) -> SaslStep:
    """Log in as a client does that checks the server's proof."""
    client = ScramClient(["SCRAM-SHA-256"], user, password)
    challenge = login.init("SCRAM-SHA-256", client.get_client_first().encode())
    assert challenge.is_challenge
    client.set_server_first(challenge.data.decode())
    step = login.respond(client.get_client_final().encode())
    if accepted(step):
        client.set_server_final(step.data.decode())
    return step


def test_mechanisms_are_offered_with_the_strongest_first() -> None:
    assert exchange().mechanisms == ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]
    assert exchange(subject="ada").mechanisms == ["EXTERNAL", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]
    assert exchange(address="10.0.0.1").mechanisms == ["SCRAM-SHA-256", "PLAIN"]


@pytest.fixture
def driver() -> BrokerDriver:
    return driver_with_passwords()


def test_mechanisms_can_be_left_out_and_are_refused_then(driver: BrokerDriver) -> None:
    driver.connection_limits.change(sasl_mechanisms=["PLAIN", "SCRAM-SHA-256"])
    login = exchange(driver, subject="ada")
    assert login.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    step = login.init("ANONYMOUS", b"")
    assert step.refusal == "unknown authentication mechanism 'ANONYMOUS'; offered are PLAIN, SCRAM-SHA-256"
    assert (step.is_challenge, step.delay_s, login.mechanism) == (False, 0.0, "")


def test_anonymous_login_is_guest_on_this_machine_with_the_default_password() -> None:
    for trace in (None, b"", b"somebody@example"):
        login = exchange()
        assert accepted(login.init("ANONYMOUS", trace))
        assert (login.user, login.mechanism) == ("guest", "ANONYMOUS")
    for driver in (driver_with_passwords({"guest": "secret"}), driver_with_passwords({"ada": "lovelace"})):
        assert "ANONYMOUS" not in exchange(driver).mechanisms


def test_plain_logs_in_by_initial_response_or_by_response_to_an_empty_challenge() -> None:
    login = exchange(address="10.0.0.1")
    assert accepted(login.init("PLAIN", plain_response("ada", "lovelace")))
    assert login.user == "ada"
    login = exchange()
    step = login.init("PLAIN", None)
    assert (step.is_challenge, step.data, login.state) == (True, b"", SaslState.CHALLENGED)
    assert accepted(login.respond(plain_response("ada", "lovelace")))
    assert login.state is SaslState.DONE


def test_plain_refuses_a_wrong_password_and_guest_from_elsewhere() -> None:
    assert exchange().init("PLAIN", plain_response("ada", "guess")).refusal == "user 'ada' gave a wrong password"
    assert exchange().init("PLAIN", plain_response("eve", "guess")).refusal == "user 'eve' is not known"
    refusal = exchange(address="10.0.0.1").init("PLAIN", plain_response("guest", "guest")).refusal
    assert refusal.startswith("user 'guest' can only connect from this machine")


@pytest.mark.parametrize("authorisation", [b"", b"ada"])
def test_external_is_the_user_of_the_certificate(authorisation: bytes) -> None:
    login = exchange(subject="ada", address="10.0.0.1")
    assert accepted(login.init("EXTERNAL", authorisation))
    assert login.user == "ada"
    assert accepted(exchange(subject="ada").init("EXTERNAL", None))


def test_external_refuses_unknown_users_guest_from_elsewhere_and_acting_for_another() -> None:
    assert exchange(subject="eve").init("EXTERNAL", b"").refusal == "user 'eve' is not known"
    assert "this machine" in exchange(subject="guest", address="10.0.0.1").init("EXTERNAL", b"").refusal
    refusal = exchange(subject="ada").init("EXTERNAL", b"guest").refusal
    assert refusal == "an EXTERNAL response asks to act for another user"
    assert exchange().init("EXTERNAL", b"ada").refusal.startswith("unknown authentication mechanism 'EXTERNAL'")


@pytest.mark.parametrize("user", sorted(PASSWORDS))
def test_scram_proves_the_password_in_both_directions(user: str) -> None:
    login = exchange()
    assert accepted(log_in_by_scram(login, user, PASSWORDS[user]))
    assert login.user == user


def test_scram_without_an_initial_response_begins_with_an_empty_challenge() -> None:
    login = exchange()
    assert login.init("SCRAM-SHA-256", None).data == b""
    client = ScramClient(["SCRAM-SHA-256"], "ada", "lovelace")
    client.set_server_first(login.respond(client.get_client_first().encode()).data.decode())
    assert accepted(login.respond(client.get_client_final().encode()))


def test_scram_refuses_a_wrong_password_like_an_unknown_user(driver: BrokerDriver) -> None:
    wrong, unknown = (
        log_in_by_scram(exchange(driver), "ada", "guess"),
        log_in_by_scram(exchange(driver), "eve", "guess"),
    )
    assert (wrong.refusal, unknown.refusal) == ("user 'ada' gave a wrong password", "user 'eve' is not known")
    assert wrong.data == unknown.data == b""
    assert "this machine" in log_in_by_scram(exchange(driver, "10.0.0.1"), "guest", "guest").refusal


def test_scram_has_a_nonce_for_each_login_and_a_salt_for_each_user(driver: BrokerDriver) -> None:

    def challenge(user: str) -> dict[str, str]:
        data = exchange(driver).init("SCRAM-SHA-256", f"n,,n={user},r=abc".encode()).data
        return dict(part.split("=", 1) for part in data.decode().split(","))

    first, second, unknown = challenge("ada"), challenge("ada"), challenge("eve")
    assert first["r"] != second["r"]
    assert first["r"].startswith("abcnonce-")
    assert first["s"] == second["s"] != unknown["s"] == challenge("eve")["s"]
    assert first["i"] == unknown["i"] == "4096"


class Rfc7677(Services):
    """The broker of the example in RFC 7677."""

    def __init__(self, services: Services) -> None:
        self.broker = services.broker
        self.backoff = Backoff(table_of({"user": "x"}))
        self.connection_limits = services.connection_limits
        self.login_rate = services.login_rate

    def may_be_anonymous(self, loopback: bool) -> bool:
        return False

    def access_refusal(self, user: str, loopback: bool) -> str:
        return "" if user == "user" else "no"

    def scram_keys(self, user: str) -> ScramKeys:
        salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
        found: ScramKeys = ScramMechanism("SCRAM-SHA-256").make_auth_info("pencil", 4096, salt)
        return found

    def make_nonce(self) -> str:
        return "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def test_scram_is_that_of_the_example_in_rfc_7677() -> None:
    login = SaslExchange(Rfc7677(driver_with_passwords().services), Peer("10.0.0.1:1", False), MECHANISMS, RESPONSE_MAX)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    step = login.init("SCRAM-SHA-256", b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert step.data.decode() == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    step = login.respond(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode())
    assert (step.data, step.refusal) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "malformed"),
        (b"n,,", "malformed"),
        (b"n,,n=ada", "malformed"),
        (b"n,,n=ada,r=a b", "malformed"),
        (b"n,,n=a=41da,r=abc", "malformed"),
        (b"n,a=guest,n=ada,r=abc", "malformed"),
        (b"p=tls-unique,,n=ada,r=abc", "malformed"),
        (b"n,,m=x,n=ada,r=abc", "malformed"),
        (b"n,,n=\xff,r=abc", "not UTF-8"),
        (b"n,,n=a\x07,r=abc", "malformed"),
        (b"n,,n=" + b"a" * SCRAM_MAX, f"has {SCRAM_MAX + 5} bytes; the most is {SCRAM_MAX}"),
    ],
)
def test_scram_refuses_a_malformed_first_response(first: bytes, reason: str) -> None:
    step = exchange().init("SCRAM-SHA-256", first)
    assert not step.is_challenge
    assert reason in step.refusal


@pytest.mark.parametrize(
    "final",
    [b"", b"c=biws", b"c=biws,r=other,p=AAAA", b"c=bm8=,r={r},p=AAAA", b"c=biws,r={r},p=!", b"\xff", b"a" * 600],
)
def test_scram_refuses_a_malformed_last_response(final: bytes) -> None:
    login = exchange()
    nonce = login.init("SCRAM-SHA-256", b"n,,n=ada,r=abc").data.partition(b",")[0][2:]
    step = login.respond(final.replace(b"{r}", nonce))
    assert not step.is_challenge
    assert "a SCRAM-SHA-256 response" in step.refusal


def test_scram_refuses_a_short_proof_as_a_wrong_password() -> None:
    login = exchange()
    nonce = login.init("SCRAM-SHA-256", b"n,,n=ada,r=abc").data.partition(b",")[0][2:]
    assert login.respond(b"c=biws,r=%s,p=AAAA" % nonce).refusal == "user 'ada' gave a wrong password"


def test_scram_counts_the_work(driver: BrokerDriver) -> None:
    exchange(driver).init("SCRAM-SHA-256", b"n,,n=eve,r=abc")
    assert driver.broker.work.done == SCRAM_WORK


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_wrong_passwords_are_answered_late_with_each_mechanism(mechanism: str, driver: BrokerDriver) -> None:

    def attempt(password: str) -> SaslStep:
        login = exchange(driver, "10.0.0.1")
        if mechanism == "PLAIN":
            return login.init(mechanism, plain_response("ada", password))
        return log_in_by_scram(login, "ada", password)

    assert [attempt("guess").delay_s for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert accepted(attempt("lovelace"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_password_is_not_checked_while_too_many_answers_wait(mechanism: str, driver: BrokerDriver) -> None:
    for _ in range(16):
        driver.services.backoff.wait("ada", "10.0.0.1")
    login = exchange(driver, "10.0.0.1")
    if mechanism == "PLAIN":
        step = login.init(mechanism, plain_response("ada", "lovelace"))
    else:
        step = log_in_by_scram(login, "ada", "lovelace")
    assert (step.refusal, step.delay_s) == ("16 wrong passwords from 10.0.0.1 are not answered yet", 0.0)


def test_response_beyond_the_limit_is_refused_unread() -> None:
    for mechanism in ("PLAIN", "ANONYMOUS"):
        refusal = exchange().init(mechanism, b"\0ada\0" + b"x" * RESPONSE_MAX).refusal
        assert refusal == f"a {mechanism} response has {RESPONSE_MAX + 5} bytes; the most is {RESPONSE_MAX}"


def test_refusal_never_quotes_a_password() -> None:
    for response in (b"ada\0secret", b"\0ada\0secret\0", b"root\0ada\0secret", b"\0ada\0secret", b"\0\0secret"):
        assert "secret" not in exchange().init("PLAIN", response).refusal


def test_sasl_fault_is_reported_for_protocol_errors_and_not_wrong_credentials() -> None:
    services = driver_with_passwords().services
    faults = []
    for mechanism, response in (("CRAM-MD5", b""), ("PLAIN", b"ada"), ("EXTERNAL", b"eve")):
        login = SaslExchange(services, peer_at(subject="ada"), MECHANISMS, RESPONSE_MAX)
        step = login.init(mechanism, response)
        assert step.refusal
        faults.append(type(step.fault))
    assert faults == [CommandInvalid, FrameError, type(None)]


def test_amqplain_is_offered_as_a_password_by_protocols_that_support_amqplain() -> None:
    services = driver_with_passwords().services
    response = encode_table({"LOGIN": "ada", "PASSWORD": "lovelace"})[4:]
    step = SaslExchange(services, peer_at(), ("AMQPLAIN",), RESPONSE_MAX).init("AMQPLAIN", response)
    assert (step.check.user, step.check.refusal()) == ("ada", "")


def test_exchange_is_used_only_once() -> None:
    login = exchange()
    with pytest.raises(CommandInvalid, match="a sasl-response without a sasl-challenge"):
        login.respond(b"")
    login.init("PLAIN", None)
    with pytest.raises(CommandInvalid, match="a second sasl-init"):
        login.init("PLAIN", None)
    login.respond(plain_response("ada", "guess"))
    with pytest.raises(CommandInvalid, match="without a sasl-challenge"):
        login.respond(plain_response("ada", "lovelace"))


@given(
    st.sampled_from([*SASL_MECHANISMS, "", "CRAM-MD5"]),
    st.none() | st.binary(max_size=80),
    st.lists(st.binary(max_size=80) | st.just(b"n,,n=ada,r=abc"), max_size=3),
)
def test_arbitrary_responses_log_in_no_user_but_guest(
    mechanism: str, initial: bytes | None, responses: list[bytes]
) -> None:
    login = exchange()
    step = login.init(mechanism, initial)
    for response in responses:
        if not step.is_challenge:
            break
        step = login.respond(response)
    assert step.is_challenge or step.refusal or login.user == "guest"


def test_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramClient(["SCRAM-SHA-256"], "ada", "other")
    login = exchange()
    client.set_server_first(login.init("SCRAM-SHA-256", client.get_client_first().encode()).data.decode())
    client.get_client_final()
    with pytest.raises(ScramException):
        client.set_server_final("v=AAAA")
