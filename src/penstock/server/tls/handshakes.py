"""Handshakes of TLS in threads: their cryptography takes up to milliseconds, and must not delay other clients.

A step handles what has arrived of one handshake. Each connection has at most one step, and none once it is closed. So
the number of waiting steps is bounded by the number of connections without a login. OpenSSL releases Python's lock
meanwhile.

Networks take turns. Steps of clients that have answered come before hellos. Of the hellos of a network the newest comes
first: in the order of arrival, a flood would make all of them expire before their turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import Callable
from typing import Final

NICE: Final = 10
"""Niceness of the threads, if threads have one of their own (Linux): the loop runs first."""
THREADS_MAX: Final = 4
REASONS: Final = {
    "HTTP_REQUEST": "the client speaks HTTP without TLS; let it use https://",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS; let it use amqps:// or https://",
    "UNSUPPORTED_PROTOCOL": "the client offers only older versions of TLS than minimum-version",
    "VERSION_TOO_LOW": "the client offers only older versions of TLS than minimum-version",
    "NO_SHARED_CIPHER": "the client and the broker have no cipher suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, which client-certificates requires",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate, such as for its host name",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the broker's certificate has expired for the client",
}
"""Reasons of OpenSSL that have a cause and a remedy."""


def reason_of(error: Exception) -> str:
    """Return why a handshake has failed, as text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    reason = getattr(error, "reason", None)
    return REASONS.get(reason, reason.lower().replace("_", " ")) if isinstance(reason, str) else str(error)


class Handshake:
    """Handshake of one connection; a thread does its steps, and the loop all other work."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.incoming = ssl.MemoryBIO()
        """Bytes from the peer."""
        self.outgoing = ssl.MemoryBIO()
        """Bytes for the peer."""
        self.tls: ssl.SSLObject | None = None
        """The TLS of the connection; None before the first step."""
        self.given_up = False
        """True if the connection has closed."""
        self.network: str = ""
        """Network of the peer; networks take turns."""

    def step(self) -> tuple[bool, Exception | None]:
        """Handle the received bytes; return whether the handshake has ended, and the error if it failed."""
        try:
            if self.given_up:
                return True, ConnectionAbortedError("its connection is gone")
            if self.tls is None:
                self.tls = self.context.wrap_bio(self.incoming, self.outgoing, server_side=True)
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False, None
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; ValueError: an invalid name.
            return True, error
        return True, None


Done = Callable[[bool, Exception | None], None]


class StepLine:
    """Steps that wait; networks take turns, and the newest step of a network comes first."""

    def __init__(self) -> None:
        self._networks: dict[str, dict[Handshake, Done]] = {}
        """Steps by network, the least recently served network first."""

    def add(self, handshake: Handshake, done: Done) -> None:
        """Add the step of a handshake."""
        self._networks.setdefault(handshake.network, {})[handshake] = done

    def remove(self, handshake: Handshake) -> None:
        """Remove the step of a handshake, if it waits here."""
        steps = self._networks.get(handshake.network)
        if steps is not None and steps.pop(handshake, None) is not None and not steps:
            del self._networks[handshake.network]

    def take(self) -> tuple[Handshake, Done] | None:
        """Take the next step; None if none waits."""
        if not self._networks:
            return None
        network = next(iter(self._networks))
        steps = self._networks.pop(network)
        step = steps.popitem()
        if steps:
            self._networks[network] = steps
        return step


class Handshakes:
    """Threads that do the steps of handshakes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._some = threading.Condition()
        """Lock of the following attributes; notified of a new step, and of the end."""
        self._answers = StepLine()
        """Steps of clients that have answered."""
        self._hellos = StepLine()
        self._over = False
        self._threads: list[threading.Thread] = []

    def submit(self, handshake: Handshake, done: Done) -> None:
        """Do a step; `done` is called in the loop with its outcome."""
        if not self._threads:
            for number in range(max(1, min(THREADS_MAX, (os.cpu_count() or 1) // 2))):
                thread = threading.Thread(target=self._work, name=f"tls-{number}", daemon=True)
                self._threads.append(thread)
                thread.start()
        with self._some:
            (self._hellos if handshake.tls is None else self._answers).add(handshake, done)
            self._some.notify()

    def withdraw(self, handshake: Handshake) -> None:
        """Forget a handshake whose connection has closed."""
        with self._some:
            self._hellos.remove(handshake)
            self._answers.remove(handshake)

    def stop(self) -> None:
        """End the threads; waiting steps are dropped."""
        with self._some:
            self._over = True
            self._some.notify_all()
        self._threads.clear()

    def _next(self) -> tuple[Handshake, Done] | None:
        """Wait for the next step; None at the end."""
        with self._some:
            while not self._over:
                step = self._answers.take() or self._hellos.take()
                if step is not None:
                    return step
                self._some.wait()
        return None

    def _work(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while (step := self._next()) is not None:
            handshake, done = step
            over, error = handshake.step()
            try:
                self._loop.call_soon_threadsafe(done, over, error)
            except RuntimeError:  # The loop is closed.
                return
            del step, handshake, done, error  # The thread may wait for long.
