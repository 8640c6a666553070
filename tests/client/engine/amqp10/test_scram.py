"""SCRAM of the client: a server must prove that it knows the password."""

from __future__ import annotations

import base64

import pytest
from scramp import ScramMechanism

from penstock.client.engine.amqp10.connection import Engine10
from penstock.client.engine.amqp10.scram import ITERATIONS_MOST
from penstock.client.engine.terms import ConnectionTerms
from penstock.client.errors import ClientError, ConnectionClosed, LoginRefused, WrongServer
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import decode_performative, encode
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from tests.client.engine.dialogues import mechanisms, outcome, said

NONCE = "0123456789abcdef"
TERMS = ConnectionTerms(host="h", port=5, mechanism="SCRAM-SHA-256", nonce=NONCE)


def challenge(text: str | bytes) -> bytes:
    """Return a challenge of the server."""
    octets = text if isinstance(text, bytes) else text.encode()
    return frame(0, encode(spec.SASL_CHALLENGE, challenge=octets), spec.FRAME_SASL)


class Server:
    """A server that knows a password of guest's, and says the truth."""

    def __init__(self, password: str = "guest") -> None:
        mechanism = ScramMechanism("SCRAM-SHA-256")
        keys = mechanism.make_auth_info(password, 4096, b"salt" * 4)
        self.server = mechanism.make_server(lambda user: keys, s_nonce="server")
        self.engine = Engine10(TERMS)
        self.engine.begin(0.0)

    def begin(self) -> str:
        """Begin, and return the true first message."""
        written = said(self.engine, mechanisms("SCRAM-SHA-256", "PLAIN"))
        assert written.startswith(SASL_HEADER)
        init = decode_performative(written[len(SASL_HEADER) + 8 :])[0]
        server = self.server
        server.set_client_first(init.octets("initial_response").decode())
        return str(server.get_server_first())

    def prove(self) -> str:
        """Exchange the first messages, and return the true last message."""
        written = said(self.engine, challenge(self.begin()))
        response = decode_performative(written[8:])[0]
        self.server.set_client_final(response.octets("response").decode())
        return str(self.server.get_server_final())

    def error(self) -> ClientError | None:
        return self.engine.fault


def test_signature_with_the_outcome_logs_in() -> None:
    server = Server()
    assert AMQP_HEADER in said(server.engine, outcome(0, server.prove().encode()))
    assert server.error() is None


def test_signature_as_a_challenge_logs_in() -> None:
    server = Server()
    written = said(server.engine, challenge(server.prove()))
    assert decode_performative(written[8:])[0].octets("response") == b""
    assert AMQP_HEADER in said(server.engine, outcome())
    assert server.error() is None


def first(nonce: str = NONCE + "x", salt: str = "c2FsdA==", iterations: object = 4096) -> str:
    return f"r={nonce},s={salt},i={iterations}"


WRONG_FIRSTS: dict[str, str | bytes] = {
    "empty": "",
    "no fields": "hello",
    "no text": b"\xff\xfe",
    "nonce of another": first(nonce="abc"),
    "nonce of ours": first(nonce=NONCE),
    "no salt": f"r={NONCE}x,i=4096",
    "salt that is no base64": first(salt="%%%"),
    "no iterations": f"r={NONCE}x,s=c2FsdA==",
    "iterations that are no number": first(iterations="many"),
    "no iteration": first(iterations=0),
    "negative iterations": first(iterations=-1),
    "too many iterations": first(iterations=ITERATIONS_MOST + 1),
    "endless iterations": first(iterations=10**18),
    "an error": "e=other-error",
    "a last message": "v=" + base64.b64encode(bytes(32)).decode(),
}


@pytest.mark.parametrize("lie", WRONG_FIRSTS)
def test_wrong_first_message_ends_the_login(lie: str) -> None:
    server = Server()
    server.begin()
    assert AMQP_HEADER not in said(server.engine, challenge(WRONG_FIRSTS[lie]))
    assert isinstance(server.error(), WrongServer)
    assert "guest" not in str(server.error())


WRONG_LASTS: dict[str, bytes] = {
    "nothing": b"",
    "no fields": b"welcome",
    "no text": b"\xff\xfe",
    "no signature": b"v=",
    "signature of another": b"v=" + base64.b64encode(bytes(32)),
    "signature that is no base64": b"v=%%%",
    "a first message": first().encode(),
}


@pytest.mark.parametrize("lie", WRONG_LASTS)
def test_success_with_a_wrong_signature_is_refused(lie: str) -> None:
    server = Server()
    server.prove()
    assert AMQP_HEADER not in said(server.engine, outcome(0, WRONG_LASTS[lie]))
    assert isinstance(server.error(), WrongServer)


@pytest.mark.parametrize("lie", WRONG_LASTS)
def test_challenge_with_a_wrong_signature_is_refused(lie: str) -> None:
    server = Server()
    server.prove()
    said(server.engine, challenge(WRONG_LASTS[lie]))
    assert isinstance(server.error(), WrongServer)


@pytest.mark.parametrize("data", [None, b"", b"v=" + base64.b64encode(bytes(32))])
def test_success_without_a_challenge_is_refused(data: bytes | None) -> None:
    server = Server()
    server.begin()
    assert AMQP_HEADER not in said(server.engine, outcome(0, data))
    assert isinstance(server.error(), WrongServer)
    assert "did not prove" in str(server.error())


def test_server_that_does_not_know_the_password_is_no_login() -> None:
    server = Server("another")
    written = said(server.engine, challenge(server.begin()))
    assert decode_performative(written[8:])[0].octets("response").startswith(b"c=biws,r=")
    said(server.engine, challenge(b"e=invalid-proof"))
    assert isinstance(server.error(), LoginRefused)


def test_challenge_after_the_signature_is_refused() -> None:
    server = Server()
    said(server.engine, challenge(server.prove()))
    said(server.engine, challenge(b"v=again"))
    assert isinstance(server.error(), WrongServer)


def test_success_before_the_mechanisms_is_no_login() -> None:
    engine = Engine10(TERMS)
    engine.begin(0.0)
    assert AMQP_HEADER not in said(engine, SASL_HEADER + outcome())
    assert isinstance(engine.fault, ConnectionClosed)


def test_challenges_have_an_end_with_every_mechanism() -> None:
    engine = Engine10(TERMS._replace(mechanism="PLAIN"))
    engine.begin(0.0)
    said(engine, mechanisms("PLAIN"))
    for _ in range(20):
        said(engine, challenge(b"again"))
    assert isinstance(engine.fault, ConnectionClosed)


def test_user_that_scram_cannot_have_is_a_refused_login() -> None:
    engine = Engine10(TERMS._replace(user="a\x00b"))
    engine.begin(0.0)
    said(engine, mechanisms("SCRAM-SHA-256"))
    assert isinstance(engine.fault, LoginRefused)
