"""Verifications of passwords that take as long as a test wants."""

from __future__ import annotations

from penstock.access.credentials import CredentialCheck
from penstock.protocols.common.login import Authenticator, Verification


class SlowCheck(CredentialCheck):
    """A check of guest's password that takes as long as the test wants."""

    def __init__(self, password: str) -> None:
        self.user = "guest"
        self.password = password
        self.verified = False

    def is_slow(self) -> bool:
        return True

    def verify(self) -> None:
        self.verified = self.password == "guest"

    def refusal(self) -> str:
        return "" if self.verified else "user 'guest' gave a wrong password"


class HeldAuthenticator(Authenticator):
    """Verifications that wait until the test lets them go."""

    def __init__(self) -> None:
        self.held: list[Verification] = []

    def start(self, verification: Verification) -> None:
        self.held.append(verification)

    def let_go(self) -> None:
        held = self.held.pop(0)
        held.run()
        if not held.cancelled:
            held.conclude()
