"""SASL layer of AMQP 1.0: mechanisms, challenges and outcomes as frames."""

from __future__ import annotations

import pytest
from scramp import ScramClient

from penstock.access import password_hash
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.connection_state import ConnectionState
from penstock.connections.login import Verification
from penstock.connections.peer import Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative, encode_composite
from penstock.wire.amqp10.frames import SASL_HEADER, frame
from penstock.wire.sasl import plain_response
from tests.support.amqp10_dialogue import login
from tests.support.driven_connection import make_driver, output_of
from tests.support.frame_splitter import FrameSplitter
from tests.support.held_logins import HeldAuthenticator
from tests.support.limited_connections import limits


class Login:
    """A client that logs in, frame by frame."""

    def __init__(self, address: str = "127.0.0.1", subject: str = "", limits: ConnectionLimits | None = None) -> None:
        self.driver = make_driver(limits)
        peer = Peer(f"{address}:1", address.startswith("127."))
        peer.tls_subject = subject
        self.connection = self.driver.connect(peer)
        self._splitter = FrameSplitter(512)
        self.connection.receive(SASL_HEADER)
        said = output_of(self.connection)
        assert said.startswith(SASL_HEADER)
        (self.offered,) = self._performatives(said[8:])

    def _performatives(self, data: bytes) -> list[Composite]:
        frames = self._splitter.feed(data)
        assert all(each.kind == spec.FRAME_SASL for each in frames)
        return [decode_performative(each.body)[0] for each in frames]

    def say(self, code: int, **fields: object) -> Composite:
        """Send a SASL frame, and return the answer, however late it is."""
        self.connection.receive(frame(0, encode_composite(composite(code, **fields)), spec.FRAME_SASL))
        self.driver.begin(self.driver.broker.now + 10)
        self.driver.run_turn()
        (answer,) = self._performatives(output_of(self.connection))
        return answer

    def init(self, mechanism: str, initial_response: bytes | None) -> Composite:
        return self.say(spec.SASL_INIT, mechanism=mechanism, initial_response=initial_response)

    def is_logged_in(self) -> bool:
        assert self.connection.logged_in == (self.connection.state is ConnectionState.TUNE)
        assert self.connection.logged_in != self.connection.is_closed()
        return self.connection.logged_in


def test_mechanisms_are_limited_to_the_permitted_mechanisms_of_the_peer() -> None:
    assert Login().offered.texts("sasl_server_mechanisms") == ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]
    assert Login("10.0.0.1", "guest").offered.texts("sasl_server_mechanisms") == ["EXTERNAL", "SCRAM-SHA-256", "PLAIN"]


@pytest.mark.parametrize(
    ("mechanism", "response"), [("PLAIN", plain_response("guest", "guest")), ("ANONYMOUS", None), ("EXTERNAL", b"")]
)
def test_login_by_an_initial_response(mechanism: str, response: bytes | None) -> None:
    client = Login(subject="guest")
    outcome = client.init(mechanism, response)
    assert (outcome.code, outcome.number("code"), outcome.octets("additional_data")) == (spec.SASL_OUTCOME, 0, b"")
    assert client.is_logged_in()
    assert (client.connection.user, client.connection.peer.mechanism) == ("guest", mechanism)


def test_login_by_scram_ends_with_the_proof_of_the_broker() -> None:
    client, password_hash = Login(), ScramClient(["SCRAM-SHA-256"], "guest", "guest")
    challenge = client.init("SCRAM-SHA-256", password_hash.get_client_first().encode())
    assert challenge.code == spec.SASL_CHALLENGE
    password_hash.set_server_first(challenge.octets("challenge").decode())
    outcome = client.say(spec.SASL_RESPONSE, response=password_hash.get_client_final().encode())
    assert outcome.number("code") == 0
    password_hash.set_server_final(outcome.octets("additional_data").decode())
    assert client.is_logged_in()
    assert client.connection.user == "guest"


def test_login_by_plain_with_an_empty_challenge() -> None:
    client = Login()
    challenge = client.init("PLAIN", None)
    assert (challenge.code, challenge.octets("challenge")) == (spec.SASL_CHALLENGE, b"")
    assert client.say(spec.SASL_RESPONSE, response=plain_response("guest", "guest")).number("code") == 0
    assert client.is_logged_in()


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", plain_response("guest", "wrong")),
        ("PLAIN", b"guest"),
        ("EXTERNAL", b"guest"),
        ("GSSAPI", b""),
        ("SCRAM-SHA-256", b"n"),
    ],
)
def test_refused_login_closes_the_connection(mechanism: str, response: bytes) -> None:
    client = Login()
    outcome = client.init(mechanism, response)
    assert (outcome.code, outcome.number("code"), outcome.fields["additional_data"]) == (spec.SASL_OUTCOME, 1, None)
    assert not client.is_logged_in()


def test_login_with_a_wrong_password_is_refused_late_after_several(driver: BrokerDriver) -> None:
    for _ in range(3):
        connection = driver.connect(Peer("10.0.0.1:1", False))
        connection.receive(login("guest", "wrong"))
        assert connection.is_closed()
    connection = driver.connect(Peer("10.0.0.1:1", False))
    connection.receive(login("guest", "wrong"))
    assert connection.state is ConnectionState.REFUSED
    connection.take_output()
    driver.begin(driver.broker.now + 0.5)
    driver.run_turn()
    assert connection.is_closed()
    assert output_of(connection).endswith(b"\x50\x01")


@pytest.mark.parametrize(
    "said",
    [
        composite(spec.SASL_RESPONSE, response=b""),
        composite(spec.SASL_MECHANISMS, sasl_server_mechanisms=["PLAIN"]),
        composite(spec.SASL_CHALLENGE, challenge=b""),
        composite(spec.SASL_OUTCOME, code=0),
        composite(spec.OPEN, container_id="bypass"),
        None,
    ],
)
def test_unexpected_frame_closes_the_connection(said: Composite | None) -> None:
    client = Login()
    kind = spec.FRAME_AMQP if said and said.code == spec.OPEN else spec.FRAME_SASL
    client.connection.receive(frame(0, encode_composite(said) if said else b"", kind))
    assert client.connection.is_closed()
    assert not client.connection.logged_in


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "ANONYMOUS"])
def test_login_beyond_the_limit_of_a_second_is_a_temporary_failure(mechanism: str) -> None:
    client = Login(limits=limits(login_rate_max=1))
    client.driver.services.login_rate.refusal(client.connection.peer.network, client.driver.broker.now)
    outcome = client.init(mechanism, plain_response("guest", "guest"))
    assert (outcome.code, outcome.number("code")) == (spec.SASL_OUTCOME, 4)
    assert not client.is_logged_in()


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No login by SCRAM has been before."""
    monkeypatch.setattr(password_hash, "_is_loaded", False)


FIRST = b"n,,n=guest,r=client"


def asked_for_scram() -> tuple[Login, HeldAuthenticator]:
    """Return a client that has asked for SCRAM, and the authenticator that has yet to load its library."""
    client, authenticator = Login(), HeldAuthenticator()
    client.driver.services.authenticator = authenticator
    init = composite(spec.SASL_INIT, mechanism="SCRAM-SHA-256", initial_response=FIRST)
    client.connection.receive(frame(0, encode_composite(init), spec.FRAME_SASL))
    return client, authenticator


@pytest.mark.usefixtures("unloaded")
def test_first_login_by_scram_waits_for_the_library_outside_the_event_loop() -> None:
    client, authenticator = asked_for_scram()
    client.driver.run_turn()
    assert output_of(client.connection) == b""
    assert (client.connection.busy, len(authenticator.held)) == (1, 1)
    authenticator.let_go()
    assert password_hash.scram_is_loaded()
    (challenge,) = client._performatives(output_of(client.connection))
    assert challenge.octets("challenge").startswith(b"r=client")
    assert (client.connection.busy, client.connection.login.attempt) == (0, None)
    other = Login()
    other.driver.services.authenticator = authenticator
    assert other.init("SCRAM-SHA-256", FIRST).octets("challenge").startswith(b"r=client")
    assert authenticator.held == []


@pytest.mark.usefixtures("unloaded")
def test_client_that_goes_while_the_library_is_loaded_is_not_answered() -> None:
    client, authenticator = asked_for_scram()
    client.driver.disconnect(client.connection)
    assert (client.connection.busy, client.connection.login.attempt) == (0, None)
    assert authenticator.held[0].cancelled
    authenticator.let_go()
    assert output_of(client.connection) == b""


@pytest.mark.usefixtures("unloaded")
def test_client_is_refused_when_too_many_wait_for_the_library() -> None:
    class Full(HeldAuthenticator):
        def start(self, verification: Verification) -> None:
            verification.turn_away()

    client = Login()
    client.driver.services.authenticator = Full()
    assert client.init("SCRAM-SHA-256", FIRST).number("code") == 1
    assert client.connection.is_closed()
    assert (client.connection.busy, client.connection.login.attempt) == (0, None)


@pytest.mark.usefixtures("unloaded")
def test_scram_without_an_offer_loads_no_library() -> None:
    client = Login(limits=limits(sasl_mechanisms=["PLAIN"]))
    client.init("SCRAM-SHA-256", FIRST)
    assert client.connection.is_closed()
    assert not password_hash.scram_is_loaded()
