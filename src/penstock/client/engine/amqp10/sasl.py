"""SASL of AMQP 1.0: EXTERNAL, SCRAM-SHA-256, PLAIN and ANONYMOUS, in this order where nothing else is asked for."""

from __future__ import annotations

from typing import Any, Final

from penstock.client.engine.terms import ConnectionTerms
from penstock.client.errors import ClientError, ConnectError, LoginRefused
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, encode
from penstock.wire.sasl import SaslError, plain_response

SCRAM: Final = "SCRAM-SHA-256"


class Login:
    """One login; `error` says why it has failed."""

    def __init__(self, terms: ConnectionTerms) -> None:
        self.terms = terms
        self.error: ClientError | None = None
        self.scram: Any = None

    def begin(self, offered: list[str]) -> bytes:
        """Return the sasl-init for one of the mechanisms that the broker offers; empty if there is none."""
        terms = self.terms
        usual = ["PLAIN", SCRAM, "ANONYMOUS"] if terms.user else ["ANONYMOUS"]
        wanted = [terms.mechanism] if terms.mechanism else usual
        mechanism = next((name for name in wanted if name in offered), "")
        if not mechanism:
            text = f"the broker offers only {' '.join(offered)}, and {' or '.join(wanted)} is needed"
            self.error = LoginRefused(terms.host, terms.port, text)
            return b""
        try:
            response = self._response(mechanism)
        except SaslError as error:
            self.error = LoginRefused(terms.host, terms.port, str(error))
            return b""
        return encode(spec.SASL_INIT, mechanism=mechanism, initial_response=response, hostname=terms.host)

    def _response(self, mechanism: str) -> bytes:
        terms = self.terms
        if mechanism == "PLAIN":
            return plain_response(terms.user, terms.password)
        if mechanism == SCRAM:
            from scramp import ScramClient  # It takes 50 ms.

            self.scram = ScramClient([SCRAM], terms.user, terms.password, c_nonce=terms.nonce)
            return str(self.scram.get_client_first()).encode()
        return b""

    def answer(self, challenge: bytes) -> bytes:
        """Return the sasl-response to a challenge."""
        response = b""
        if self.scram is not None:
            self.scram.set_server_first(challenge.decode(errors="replace"))
            response = str(self.scram.get_client_final()).encode()
        return encode(spec.SASL_RESPONSE, response=response)

    def end(self, outcome: Composite) -> None:
        """Take the outcome; the broker's proof that it knows the password is checked as well (RFC 5802)."""
        terms = self.terms
        code = outcome.number("code", 1)
        if code == 0:
            proof = outcome.octets("additional_data")
            if self.scram is not None and proof:
                self.scram.set_server_final(proof.decode(errors="replace"))
            return
        if code == 1:
            text = f"the broker refuses {terms.user}; check user, password and permissions"
            self.error = LoginRefused(terms.host, terms.port, text)
        else:
            self.error = ConnectError(terms.host, terms.port, f"the login failed at the broker (code {code})")
