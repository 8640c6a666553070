"""Logins of a broker: threads that verify credentials, keys of tokens, and the HTTP back end for users."""

from __future__ import annotations

import importlib
import secrets
from typing import TYPE_CHECKING

from penstock.access.back_end import ServedUsers
from penstock.connections.login_limits import SHARES
from penstock.driver.driver import BrokerDriver
from penstock.driver.services import DriverServices
from penstock.errors import StartError
from penstock.server.event_loop import EventLoop
from penstock.server.login_threads import LoginPools, default_threads
from penstock.settings.config import Settings
from penstock.settings.file_tables import BackEndSettings

if TYPE_CHECKING:
    from penstock.server.remote_logins import FetchedKeys, HttpBackEnd


class Logins:
    """Verification of the credentials that clients of one broker send."""

    def __init__(self, settings: Settings, driver: BrokerDriver) -> None:
        """Set what the broker accepts. Raises StartError if a library is missing."""
        assert isinstance(driver.services, DriverServices)
        self._settings = settings
        self._services = driver.services
        self._back_end: HttpBackEnd | None = None
        self.threads: LoginPools | None = None
        """Threads for verifications; None before the start."""
        driver.has_users_elsewhere = settings.tokens is not None or settings.back_end is not None
        if settings.tokens is not None:
            self._services.tokens = settings.tokens.policy(_token_keys(settings.tokens.keys))
        if settings.back_end is not None:
            self._serve_users(driver, settings.back_end)

    def _serve_users(self, driver: BrokerDriver, settings: BackEndSettings) -> None:
        """Configure the HTTP back end for users that the broker does not know."""
        from penstock.server.remote_logins import HttpBackEnd  # The module loads slowly, and few brokers need it.

        self._back_end = HttpBackEnd(settings)
        core, secret = driver.broker, secrets.token_bytes(32)
        self._services.served = ServedUsers(
            core.access, self._back_end, secret, settings.permission, settings.cache_s, lambda: core.now
        )
        self._services.backoff.shares = SHARES

    def start(self, event_loop: EventLoop) -> None:
        """Verify credentials in threads from now on."""
        back_end = self._settings.back_end
        threads = self._settings.login_threads or default_threads()
        self.threads = LoginPools(event_loop, threads, 1 if back_end is None else back_end.threads)
        self._services.authenticator = self.threads

    def stop(self) -> None:
        """End the threads, and the connections to the back end."""
        if self.threads is not None:
            self.threads.stop()
        if self._back_end is not None:
            self._back_end.close()


def _token_keys(where: str) -> FetchedKeys:
    """Return the keys of tokens.

    Imports the token library, which loads slowly; raises StartError if the library is not installed.
    """
    try:
        for name in ("jwt.algorithms", "cryptography"):
            importlib.import_module(name)
    except ImportError:
        raise StartError("[oauth] needs PyJWT and cryptography: pip install 'penstock[oauth]'") from None
    keys: FetchedKeys = importlib.import_module("penstock.server.remote_logins").FetchedKeys(where)
    return keys
