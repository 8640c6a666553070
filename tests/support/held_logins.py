"""Verifications of passwords that take as long as a test wants."""

from __future__ import annotations

from penstock.access.rules import CredentialCheck
from penstock.connections.connection import Connection
from penstock.connections.login import Authenticator, Verification
from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import make_driver
from tests.support.limited_connections import limits
from tests.support.logging_in import GREETING, stranger


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


def holding(**values: object) -> tuple[BrokerDriver, HeldAuthenticator]:
    """Return a driver with these limits, whose passwords are verified when the test wants it."""
    driver, authenticator = make_driver(limits(**values)), HeldAuthenticator()
    driver.services.authenticator = authenticator
    return driver, authenticator


def logging_in(driver: BrokerDriver, address: str = "10.0.0.1", password: str = "guest") -> Connection:
    """Return a connection whose credentials have come and wait for a verdict."""
    connection = stranger(driver, address)
    connection.receive(GREETING)
    connection.login.start(connection, SlowCheck(password))
    return connection
