"""SCRAM-SHA-256 of a login (RFC 5802, RFC 7677): each side proves that it knows the password, without sending it."""

from __future__ import annotations

from typing import Any, Final

from penstock.client.engine.terms import ConnectionTerms
from penstock.client.errors import ConnectError, LoginRefused, WrongServer

SCRAM: Final = "SCRAM-SHA-256"
ITERATIONS_MOST: Final = 1_000_000
"""Most iterations that a server may request: they take about 0.4 s, which blocks the engine."""

FIRST_DUE: Final = 0
FINAL_DUE: Final = 1
PROVED: Final = 2
"""Expected messages of the server: salt and iterations, its signature, and none."""


class Scram:
    """One exchange. A wrong message of the server raises `ConnectError` or a subclass."""

    def __init__(self, terms: ConnectionTerms) -> None:
        from scramp import ScramClient  # The import takes 50 ms.

        self.terms = terms
        self.due: int = FIRST_DUE
        try:
            self.client: Any = ScramClient([SCRAM], terms.user, terms.password, c_nonce=terms.nonce)
            self.first: bytes = str(self.client.get_client_first()).encode()
        except Exception as error:  # Name or password contain characters that SASLprep forbids.
            raise LoginRefused(terms.host, terms.port, f"{SCRAM} cannot have this user or password: {error}") from None

    def answer(self, challenge: bytes) -> bytes:
        """Return the response to a challenge: the client's proof, or nothing to the server's signature."""
        if self.due == FIRST_DUE:
            return self._prove(challenge)
        self._check_signature(challenge)
        return b""

    def end(self, data: bytes) -> None:
        """Handle the success of the login, with the server's signature unless it arrived as a challenge."""
        if self.due == FINAL_DUE and data:
            self._check_signature(data)
        if self.due != PROVED:
            raise self._untrue("it did not prove that it knows the password")

    def _prove(self, challenge: bytes) -> bytes:
        client = self.client
        try:
            client.set_server_first(challenge.decode())
            iterations = int(client.iterations)
            if not 1 <= iterations <= ITERATIONS_MOST:
                raise self._untrue(f"it asks for {iterations} iterations, not for 1 to {ITERATIONS_MOST}")
            final = str(client.get_client_final()).encode()
        except ConnectError:
            raise
        except Exception as error:  # Any error of the library for a server's input.
            raise self._untrue(f"its challenge is malformed ({_text(error)})") from None
        self.due = FINAL_DUE
        return final

    def _check_signature(self, data: bytes) -> None:
        if self.due != FINAL_DUE:
            raise self._untrue("it goes on after its signature")
        if data.startswith(b"e="):
            text = f"the broker refuses {self.terms.user}; check user, password and permissions"
            raise LoginRefused(self.terms.host, self.terms.port, text)
        try:
            self.client.set_server_final(data.decode())
        except Exception as error:
            raise self._untrue(f"its signature is wrong ({_text(error)}); it does not know the password") from None
        self.due = PROVED

    def _untrue(self, text: str) -> WrongServer:
        return WrongServer(self.terms.host, self.terms.port, f"the server there is not to be trusted: {text}")


def _text(error: Exception) -> str:
    return str(error)[:100] or type(error).__name__
