"""Certificates that a broker serves: their warnings in the log, and their reload without dropping a connection."""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override

from penstock.config import Settings
from penstock.driver.driver import BrokerDriver
from penstock.errors import ConfigError, PreconditionFailed
from penstock.file_tables import TlsSettings
from penstock.log_ids import CERTIFICATE, CERTIFICATE_REFUSED
from penstock.logger import log
from penstock.management.certificates import Certificates
from penstock.protocols.common.control_request import ControlRequest
from penstock.protocols.common.log_line import HANDSHAKE
from penstock.server.tls.contexts import Contexts, now
from penstock.server.tls.tls_server import TlsServer

WARN_EVERY_S: Final = 86_400.0
"""Seconds between two looks for certificates that expire soon."""
REQUESTS_MAX: Final = 100
"""Most requests that wait for one reload."""


class ServedCertificates(Certificates):
    """Certificates of a broker with TLS."""

    def __init__(self, driver: BrokerDriver, loop: asyncio.AbstractEventLoop, settings: TlsSettings) -> None:
        """Read the certificates. Raises ConfigError."""
        self._driver = driver
        self._loop = loop
        self._settings = settings
        self.server = TlsServer(loop, settings, self._refuse)
        self._waiting: list[ControlRequest] = []
        self._reloading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._warn()

    @override
    def view(self) -> list[dict[str, object]]:
        present = now()
        return [each.view(present) for each in self.server.contexts.served]

    @override
    def ends(self) -> list[tuple[str, str, float]]:
        served = self.server.contexts.served
        return [(str(each.file), each.name, each.certificate.ends.timestamp()) for each in served]

    @override
    def reload(self, request: ControlRequest) -> None:
        if len(self._waiting) >= REQUESTS_MAX:
            raise PreconditionFailed(f"{REQUESTS_MAX} requests wait for a reload already; ask again later")
        self._waiting.append(request)
        if self._reloading is None or self._reloading.done():
            self._reloading = self._loop.create_task(self._answer())

    async def replace(self, settings: TlsSettings) -> None:
        """Serve the certificates of these settings from the next handshake on.

        Raises ConfigError, and then those before stay: for a file that cannot be used, or an expired certificate where
        the present ones have not expired.
        """
        found = await asyncio.to_thread(Contexts, settings)
        present = now()
        expired = found.has_expired(present)
        if expired and not self.server.contexts.has_expired(present):
            raise ConfigError(f"[tls] {expired[0]}")
        self._settings = settings
        self.server.contexts = found
        self._warn()

    def stop(self) -> None:
        """End the threads and timers."""
        self.server.handshakes.stop()
        if self._timer is not None:
            self._timer.cancel()
        if self._reloading is not None:
            self._reloading.cancel()

    async def _answer(self) -> None:
        """Reload, and answer all requests that have come meanwhile; those that come later are one more reload."""
        while self._waiting:
            requests = self._waiting
            self._waiting = []
            failure = ""
            try:
                await self.replace(self._settings)
            except ConfigError as error:
                failure = f"the old certificates stay: {error}"
            self._driver.begin(self._loop.time())
            for request in requests:
                if failure:
                    self._driver.control.fail(request, PreconditionFailed(failure))
                else:
                    self._driver.control.answer(request, {"certificates": self.view()})
            if failure:
                log(CERTIFICATE_REFUSED, "tls: %s", failure)
            else:
                user = "" if requests[0].connection is None else requests[0].connection.user
                self._driver.record_setting("tls", f"were reloaded by user '{user}'")

    def _refuse(self, line: str) -> None:
        self._driver.begin(self._loop.time())
        self._driver.log_queue.add_refusal(HANDSHAKE, line)

    def _warn(self) -> None:
        """Log each certificate that expires soon, and look again after a day."""
        if self._timer is not None:
            self._timer.cancel()
        present = now()
        for warning in self.server.contexts.warnings(present):
            log(CERTIFICATE, "tls: %s", warning)
        self._timer = self._loop.call_later(WARN_EVERY_S, self._warn)


def served_tls(settings: Settings) -> TlsSettings | None:
    """Return `[tls]` if anything listens with TLS, else None. Raises ConfigError for one without the other."""
    if not settings.listen_tls and settings.http_tls is None:
        if settings.tls is not None:
            raise ConfigError(
                f"'{settings.file}' has [tls], but nothing listens with TLS: add listen-tls = [\"0.0.0.0:5671\"]"
            )
        return None
    if settings.tls is None:
        raise ConfigError(
            "listen-tls and http-tls need a certificate: set certificate and key in [tls] of the settings file "
            "(`penstock tls self-signed DIR` makes them for development)"
        )
    return settings.tls
