"""SASL (section 5.3): PLAIN with a user; without one EXTERNAL by a certificate of TLS, or ANONYMOUS."""

from collections.abc import Sequence
from typing import Final, Protocol

from penstock.client import ConnectError, LoginRefused, Parameters
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, encode
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from penstock.wire.sasl import plain_response

PLAIN, EXTERNAL, ANONYMOUS = "PLAIN", "EXTERNAL", "ANONYMOUS"
_OK: Final = 0
_REFUSED: Final = 1


class Conversation(Protocol):
    """Octets of a connection that is not open yet."""

    def send(self, data: bytes) -> None:
        """Send octets."""

    def header(self) -> bytes:
        """Return the next eight octets."""

    def performative(self) -> Composite:
        """Return the performative of the next frame."""


def log_in(peer: Conversation, parameters: Parameters, certificate: bool) -> None:
    """Log in, up to the header of AMQP after SASL. Raises `ConnectError`, `LoginRefused`, `SaslError`."""
    host, port, user = parameters.host, parameters.port, parameters.user
    peer.send(SASL_HEADER)
    _expect(peer, SASL_HEADER, parameters)
    offered = _awaited(peer, spec.SASL_MECHANISMS, parameters).texts("sasl_server_mechanisms")
    mechanism = chosen(offered, user, certificate)
    if mechanism is None:
        fitting = "PLAIN" if user else "EXTERNAL with a certificate and ANONYMOUS"
        text = f"the broker offers the logins {' '.join(offered)}, and here only {fitting} would do"
        raise ConnectError(host, port, f"{text}; option user = '' logs in without a user")
    response = plain_response(user, parameters.password) if mechanism == PLAIN else b""
    init = encode(spec.SASL_INIT, mechanism=mechanism, initial_response=response, hostname=host)
    peer.send(frame(0, init, spec.FRAME_SASL))
    code = _awaited(peer, spec.SASL_OUTCOME, parameters).number("code")
    if code == _REFUSED:
        raise LoginRefused(host, port, f"the broker refuses {user or mechanism}; check user and password")
    if code != _OK:
        raise ConnectError(host, port, f"the broker cannot log anybody in now (outcome {code} of SASL)")
    peer.send(AMQP_HEADER)
    _expect(peer, AMQP_HEADER, parameters)


def chosen(offered: Sequence[str], user: str, certificate: bool) -> str | None:
    """Return the mechanism for a user, empty for none, and perhaps a certificate; None if none fits."""
    wanted = [PLAIN] if user else []
    if certificate:
        wanted.append(EXTERNAL)
    if not user:
        wanted.append(ANONYMOUS)
    return next((mechanism for mechanism in wanted if mechanism in offered), None)


def _expect(peer: Conversation, header: bytes, parameters: Parameters) -> None:
    came = peer.header()
    if came != header:
        text = f"the server there does not speak AMQP 1.0, but answers {came!r}; check the port and option protocol"
        raise ConnectError(parameters.host, parameters.port, text)


def _awaited(peer: Conversation, code: int, parameters: Parameters) -> Composite:
    performative = peer.performative()
    if performative.code != code:
        text = f"the broker sends {performative.name} where {spec.COMPOSITES[code].name} was due"
        raise ConnectError(parameters.host, parameters.port, text)
    return performative
