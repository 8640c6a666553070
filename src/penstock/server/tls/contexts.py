"""Contexts of TLS from files, the certificates that a broker serves, and their reload without dropping a connection."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from penstock.connections.control_request import ControlRequest
from penstock.connections.log_line import HANDSHAKE
from penstock.driver.driver import BrokerDriver
from penstock.errors import ConfigError, PreconditionFailed
from penstock.logs.ids import CERTIFICATE, CERTIFICATE_REFUSED
from penstock.logs.logger import log
from penstock.management.node import Certificates
from penstock.server.tls.certificate import (
    Certificate,
    NotACertificate,
    RevocationList,
    certificates,
    first_certificate,
    revocation_lists,
)
from penstock.server.tls.handshakes import Handshakes
from penstock.settings.config import Settings
from penstock.settings.file_tables import CHAIN, LEAF, CertificateFiles, TlsSettings

FILE_OCTETS: Final = 1024 * 1024
"""Largest file of certificates or keys, in bytes."""
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
CLIENTS: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
CRL_FLAGS: Final = {LEAF: ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF, CHAIN: ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN}
SOON_DAYS: Final = 30
"""Days before expiry at which reports of a certificate begin."""


class BadNameHook:
    """Hook of `sys.unraisablehook` that suppresses reports of names in handshakes that are not ASCII.

    Python would write a traceback for each, at a rate that any client can choose. The handshake fails, which is logged.
    """

    def __init__(self, other: Callable[[Any], object]) -> None:
        self._other = other

    def __call__(self, found: Any) -> None:
        """Pass on all other reports."""
        if not (isinstance(found.exc_value, UnicodeDecodeError) and isinstance(found.object, bytes)):
            self._other(found)


class ServedCertificate:
    """A certificate for clients."""

    def __init__(self, name: str, file: Path, certificate: Certificate) -> None:
        self.name = name
        """Server name for which the certificate is chosen; empty for the default."""
        self.file = file
        self.certificate = certificate

    def warning(self, now: datetime) -> str:
        """Return a sentence about a certificate that is not valid now or expires soon; empty otherwise."""
        certificate = self.certificate
        if now < certificate.begins:
            return f"certificate '{self.file}' is not valid before {certificate.begins:%Y-%m-%d}: check the clock"
        if certificate.ends <= now:
            return f"certificate '{self.file}' has expired on {certificate.ends:%Y-%m-%d}: renew it"
        days = certificate.days_left(now)
        if days < SOON_DAYS:
            return f"certificate '{self.file}' expires in {days} days, on {certificate.ends:%Y-%m-%d}: renew it"
        return ""

    def view(self, now: datetime) -> dict[str, object]:
        """Return the certificate as plain data."""
        certificate = self.certificate
        return {
            "name": self.name or None,
            "file": str(self.file),
            "subject": certificate.subject,
            "names": list(certificate.names[:20]),
            "ends": certificate.ends.isoformat(),
            "days_left": certificate.days_left(now),
            "warning": self.warning(now),
        }


class ServedLists:
    """Certificate revocation lists. After the end of a list, OpenSSL refuses all certificates of its authority."""

    def __init__(self, file: Path, ends: datetime | None) -> None:
        self.file = file
        self.ends = ends
        """Time at which the first list ends; None if none does."""

    def warning(self, now: datetime) -> str:
        """Return a sentence about a list that has ended; empty otherwise."""
        if self.ends is None or now < self.ends:
            return ""
        return (
            f"crl '{self.file}' has a list that was to be renewed by {self.ends:%Y-%m-%d %H:%M} UTC: "
            "clients with certificates are refused until it is"
        )


class Contexts:
    """Contexts of one settings table: the default, and others by the requested server name."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read all files. Raises ConfigError, which names the file and what to do."""
        self.user_from = settings.user_from
        self.served: list[ServedCertificate] = []
        self.lists = _read_lists(settings)
        """Revoked certificates of clients; None if none are listed."""
        self._by_name: dict[str, ssl.SSLContext] = {}
        for name, files in settings.names.items():
            self._by_name[name] = self._make(settings, files, name)
        self.context = self._make(settings, settings.files, "")
        """Context with which handshakes begin."""
        if self._by_name:
            self.context.sni_callback = self._choose
            if not isinstance(sys.unraisablehook, BadNameHook):
                sys.unraisablehook = BadNameHook(sys.unraisablehook)

    def has_expired(self, now: datetime) -> list[str]:
        """Return a sentence about each certificate that has expired."""
        return [each.warning(now) for each in self.served if each.certificate.ends <= now]

    def warnings(self, now: datetime) -> list[str]:
        """Return a sentence about each certificate that is not valid now or expires soon, and about an old list."""
        warnings = [each.warning(now) for each in self.served]
        if self.lists is not None:
            warnings.append(self.lists.warning(now))
        return [each for each in warnings if each]

    def _make(self, settings: TlsSettings, files: CertificateFiles, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[settings.minimum_version]
        context.options |= ssl.OP_NO_RENEGOTIATION
        self.served.append(ServedCertificate(name, files.certificate, _load_pair(context, files)))
        context.verify_mode = CLIENTS[settings.client_certificates]
        if settings.ca is not None:
            try:
                context.load_verify_locations(cadata=_read(settings.ca, "ca"))
            except (ssl.SSLError, ValueError):
                raise ConfigError(f"[tls] ca '{settings.ca}' has no certificates in PEM form") from None
        if settings.crl is not None:
            _load_lists(context, settings.crl)
            context.verify_flags |= CRL_FLAGS[settings.crl_check]
        return context

    def _choose(self, tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Choose the certificate for a name: of the name itself, of all names of its domain, or the default."""
        if name is None:
            return
        wanted = name.lower()
        context = self._by_name.get(wanted) or self._by_name.get(f"*.{wanted.partition('.')[2]}")
        if context is not None:
            tls.context = context


def _load_pair(context: ssl.SSLContext, files: CertificateFiles) -> Certificate:
    """Load a certificate and its key into a context; return the certificate. Raises ConfigError."""
    where = f"certificate '{files.certificate}'"
    try:
        certificate = first_certificate(_read(files.certificate, "certificate"))
    except NotACertificate as error:
        raise ConfigError(f"[tls] {where} cannot be used: {error}") from None
    key = _read(files.key, "key")
    is_encrypted = "ENCRYPTED" in key
    if is_encrypted and not files.password:
        raise ConfigError(f"[tls] key '{files.key}' is encrypted: set key-password, key-password-file or -env")
    try:
        # Without a password OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(files.certificate, files.key, lambda: files.password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"key '{files.key}' does not belong to {where}: give the key that it was made for"
        elif is_encrypted:
            text = f"key '{files.key}' cannot be decrypted: its password is wrong"
        elif "PRIVATE KEY-----" not in key:
            text = f"key '{files.key}' has no private key in PEM form"
        else:
            text = f"{where} with key '{files.key}' cannot be used: {_reason(error)}"
        raise ConfigError(f"[tls] {text}") from None
    except OSError as error:
        raise ConfigError(f"[tls] {where} cannot be read: {error.strerror}") from None
    return certificate


def _read_lists(settings: TlsSettings) -> ServedLists | None:
    """Read the lists of revoked certificates, and check that none is known to be missing. Raises ConfigError."""
    path = settings.crl
    if path is None:
        return None
    try:
        lists = revocation_lists(_read(path, "crl"))
    except NotACertificate as error:
        raise ConfigError(f"[tls] crl '{path}' cannot be used: {error}") from None
    if settings.crl_check == CHAIN and settings.ca is not None:
        _check_every_list(lists, path, settings.ca)
    return ServedLists(path, min([each.ends for each in lists if each.ends is not None], default=None))


def _check_every_list(lists: list[RevocationList], path: Path, ca: Path) -> None:
    """Check that each authority of a file has a list: OpenSSL refuses all clients of an authority without one.

    Authorities that clients send are known only at their handshakes. Raises ConfigError.
    """
    listed = {each.issuer.key for each in lists}
    try:
        missing = [each.name.text for each in certificates(_read(ca, "ca")) if each.name.key not in listed]
    except NotACertificate:
        return  # The context lists its authorities.
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise ConfigError(
            f"[tls] crl '{path}' has no list of authority '{missing[0]}'{more} of ca '{ca}', and crl-check is {CHAIN}: "
            f"add its list, or set crl-check to {LEAF}"
        )


def _load_lists(context: ssl.SSLContext, path: Path) -> None:
    """Refuse certificates of clients that a file lists. Raises ConfigError.

    OpenSSL would trust any certificate in the file.
    """
    before = context.cert_store_stats()
    try:
        context.load_verify_locations(cafile=path)
    except OSError as error:  # ssl.SSLError is an OSError.
        raise ConfigError(f"[tls] crl '{path}' cannot be used: {error.strerror or error}") from None
    after = context.cert_store_stats()
    if after["x509"] != before["x509"]:
        raise ConfigError(f"[tls] crl '{path}' has certificates; give it lists only, and certificates to ca")


def _read(path: Path, what: str) -> str:
    """Read a file in PEM form. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            octets = file.read(FILE_OCTETS + 1)
    except OSError as error:
        raise ConfigError(f"[tls] {what} '{path}' cannot be read: {error.strerror}") from None
    if len(octets) > FILE_OCTETS:
        raise ConfigError(f"[tls] {what} '{path}' has more than {FILE_OCTETS:,} bytes")
    return octets.decode("ascii", errors="replace")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


READ_OCTETS: Final = 17 * 1024
"""Size of each of the two buffers, for a whole record: so many bytes of key updates take 15 ms."""


class TlsServer:
    """Contexts, threads and buffers that the connections with TLS of one broker share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: TlsSettings, refuse: Callable[[str], None]) -> None:
        """Read the certificates. Raises ConfigError."""
        self.contexts = Contexts(settings)
        """Contexts of new handshakes."""
        self.handshakes = Handshakes(loop)
        self.refuse = refuse
        """Function that logs a refused peer."""
        self.raw = memoryview(bytearray(READ_OCTETS))
        """Buffer that encrypted bytes are read into: each read is handled before the next."""
        self.plain = memoryview(bytearray(READ_OCTETS))
        """Buffer to decrypt into, for protocols without one."""
        self.bare_was_read = False
        """True while the present poll has read a peer whose last bytes were mostly bare (layer.py)."""

    def end_poll(self) -> None:
        """Permit another read of a peer with mostly bare bytes, because all events of a poll are handled."""
        self.bare_was_read = False


WARN_EVERY_S: Final = 86_400.0
"""Seconds between two checks for certificates that expire soon."""
REQUESTS_MAX: Final = 100
"""Most requests that wait for one reload."""


def _nothing() -> None:
    """Do nothing."""


class ServedCertificates(Certificates):
    """Certificates of a broker with TLS."""

    def __init__(self, driver: BrokerDriver, loop: asyncio.AbstractEventLoop, settings: TlsSettings) -> None:
        """Read the certificates. Raises ConfigError."""
        self._driver = driver
        self._loop = loop
        self.settings = settings
        self.server = TlsServer(loop, settings, self._refuse)
        self._waiting: list[ControlRequest] = []
        self._reloading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.listener: Callable[[], None] = _nothing
        """Function that is called after each replacement."""
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

        Raises ConfigError, and keeps the present certificates, for a file that cannot be used, or for an expired
        certificate if the present ones have not expired.
        """
        contexts = await asyncio.to_thread(Contexts, settings)
        present = now()
        expired = contexts.has_expired(present)
        if expired and not self.server.contexts.has_expired(present):
            raise ConfigError(f"[tls] {expired[0]}")
        self.settings = settings
        self.server.contexts = contexts
        self._warn()
        self.listener()

    def stop(self) -> None:
        """End the threads and timers."""
        self.server.handshakes.stop()
        if self._timer is not None:
            self._timer.cancel()
        if self._reloading is not None:
            self._reloading.cancel()

    async def _answer(self) -> None:
        """Reload, and answer all requests received so far; later requests cause one more reload."""
        while self._waiting:
            requests = self._waiting
            self._waiting = []
            failure = ""
            try:
                await self.replace(self.settings)
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
                user = requests[0].access.user
                self._driver.record_setting("tls", f"were reloaded by user '{user}'", user)

    def _refuse(self, line: str) -> None:
        self._driver.begin(self._loop.time())
        self._driver.log_queue.add_refusal(HANDSHAKE, line)

    def _warn(self) -> None:
        """Log each certificate that expires soon, and check again after a day."""
        if self._timer is not None:
            self._timer.cancel()
        present = now()
        for warning in self.server.contexts.warnings(present):
            log(CERTIFICATE, "tls: %s", warning)
        self._timer = self._loop.call_later(WARN_EVERY_S, self._warn)


def served_tls(settings: Settings) -> TlsSettings | None:
    """Return `[tls]` if anything listens with TLS, otherwise None. Raises ConfigError if only one of the two is set."""
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
