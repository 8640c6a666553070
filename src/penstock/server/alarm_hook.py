"""Web hook of alarms: one thread that posts changes of alarms to a URL as JSON, signed, until the server takes them.

Theory of operation. The event loop puts a change into a bounded table, and never waits. A newer change of the same
alarm replaces an unsent one, so a server that is away for a day costs one entry for each alarm; beyond `PENDING_MOST`
the oldest is dropped. Both are counted. The thread sends the present entries in one request, and repeats a failed
request after a time that doubles, with jitter, up to `PAUSE_MOST_S`. A change is sent at least once; its id tells
repetitions.

The log, lists and errors have the server of the URL alone, because path and query may be secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import secrets
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from typing_extensions import override

from penstock.describe.table import Row
from penstock.errors import ConfigError, PreconditionFailed
from penstock.logs.ids import HOOK_FAILS, HOOK_WORKS
from penstock.logs.logger import log
from penstock.management.alarms import FATES, AlarmChange, AlarmListener, Key
from penstock.server.web_client import WebConnection
from penstock.settings.file_tables import HookSettings
from penstock.texts import printable
from penstock.version import VERSION

PENDING_MOST: Final = 1000
"""Most alarms with an unsent change."""
CHANGES_A_REQUEST: Final = 100
TESTS_MOST: Final = 10
"""Most tests that wait."""
GATHER_S: Final = 0.2
"""Seconds from the first unsent change to its request: alarms of one cause come together."""
APART_S: Final = 1.0
"""Least seconds between two requests."""
PAUSE_S: Final = 1.0
PAUSE_MOST_S: Final = 300.0
"""Seconds from a failure to the next attempt: at first, and at most. Jitter takes up to half of them."""
STOP_S: Final = 2.0
"""Seconds for a request that is under way when the broker stops."""
SHOWN_LETTERS: Final = 200
"""Most characters of an answer that are shown."""
SUCCESSES: Final = range(200, 300)
SIGNATURE: Final = "Penstock-Signature"
"""Header of the signature: t=SECONDS,v1=HMAC-SHA256 over SECONDS, a dot and the body, in hexadecimal digits."""


def context_of(settings: HookSettings) -> ssl.SSLContext:
    """Return the context that verifies the server. Raises ConfigError for authorities that cannot be used."""
    try:
        return ssl.create_default_context(cafile=settings.ca or None)
    except OSError as error:
        raise ConfigError(f"ca in [alarm-hook]: '{settings.ca}' has no certificates: {error}") from None


def signature(secret: str, at: int, body: bytes) -> str:
    """Return the signature of a body that is sent at a time (seconds since the epoch)."""
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class AlarmHook(AlarmListener):
    """Web hook at the URL of the settings. The event loop's thread calls all methods without an underscore."""

    def __init__(
        self,
        settings: HookSettings,
        node: str,
        in_loop: Callable[[Callable[[], None]], None],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`in_loop` carries out an action in the event loop. Raises ConfigError."""
        self._node = node
        self._in_loop = in_loop
        self._clock = clock
        self._wall = wall
        self._run_id = secrets.token_hex(4)
        """Part of the ids of changes: numbers begin again after a restart."""
        self._numbers = 0
        self._changed = threading.Condition()
        """Lock of all following attributes; held only for moments, never during a request."""
        self._settings = settings
        self._context = context_of(settings)
        self._pending: dict[Key, tuple[str, AlarmChange]] = {}
        """Unsent changes by alarm, with their ids; the oldest first."""
        self._tests: deque[Callable[[Row], None]] = deque()
        self._counts = dict.fromkeys(FATES, 0)
        self._unreported = 0
        """Dropped changes that no taken request has reported."""
        self._failures = 0
        """Failed requests since the last success."""
        self._error = ""
        self._next_at = 0.0
        """Time of the next request, on the clock."""
        self._ended = False
        self._thread: threading.Thread | None = None
        self._connection: tuple[HookSettings, WebConnection] | None = None
        """Open connection, with the settings that it was made for; of the thread."""

    # For the broker

    @override
    def changed(self, change: AlarmChange) -> None:
        with self._changed:
            if self._ended:
                return
            if not self._pending:
                self._next_at = max(self._next_at, self._clock() + GATHER_S)
            if self._pending.pop(change.key, None) is not None:
                self._counts["merged"] += 1
            elif len(self._pending) >= PENDING_MOST:
                del self._pending[next(iter(self._pending))]
                self._counts["dropped"] += 1
                self._unreported += 1
            self._numbers += 1
            self._pending[change.key] = f"{self._run_id}-{self._numbers}", change
            self._wake()

    @override
    def view(self) -> Row:
        with self._changed:
            return {
                "url": self._settings.server,
                "signed": bool(self._settings.secret),
                "pending": len(self._pending),
                **self._counts,
                "failures": self._failures,
                "error": self._error or None,
            }

    @override
    def fates(self) -> dict[str, int]:
        with self._changed:
            return dict(self._counts)

    @override
    def test(self, then: Callable[[Row], None]) -> None:
        with self._changed:
            if len(self._tests) >= TESTS_MOST:
                raise PreconditionFailed(f"{TESTS_MOST} tests of the web hook wait already; ask again later")
            if self._ended:
                raise PreconditionFailed("the broker stops")
            self._tests.append(then)
            self._wake()

    def configure(self, settings: HookSettings) -> None:
        """Use other settings from the next request on, which is due at once. Raises ConfigError."""
        context = context_of(settings)
        with self._changed:
            self._settings, self._context = settings, context
            self._next_at = self._clock()
            self._wake()

    def end(self) -> None:
        """End the thread after the present request; unsent changes are lost."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread, and wait for a request that is under way, `STOP_S` at most. Blocks."""
        self.end()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _wake(self) -> None:
        """Wake the thread, which the first change or test starts."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-alarm-hook", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # The machine has no more threads.
                self._thread = None
                self._error = str(error)
        self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        while self._wait():
            with self._changed:
                then = self._tests.popleft() if self._tests else None
                sent = list(self._pending.items())[:CHANGES_A_REQUEST]
                dropped = self._unreported
            if then is not None:
                self._in_loop(partial(then, self._test()))
                continue
            problem = self._deliver([entry for _, entry in sent], dropped)
            with self._changed:
                if problem:
                    self._record_failure(problem)
                else:
                    self._record_success(sent, dropped)
        if self._connection is not None:
            self._connection[1].close()

    def _wait(self) -> bool:
        """Wait until there is something to do; return False at the end."""
        with self._changed:
            while not self._ended and not self._tests:
                left = self._next_at - self._clock() if self._pending else None
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return not self._ended

    def _record_failure(self, problem: str) -> None:
        self._failures += 1
        pause = min(PAUSE_S * 2 ** min(self._failures - 1, 20), PAUSE_MOST_S)
        self._next_at = self._clock() + pause * random.uniform(0.5, 1.0)
        if self._failures == 1:
            log(
                HOOK_FAILS,
                "the web hook of alarms at %s takes none: %s; it is tried again",
                self._settings.server,
                problem,
            )
        self._error = problem

    def _record_success(self, sent: list[tuple[Key, tuple[str, AlarmChange]]], dropped: int) -> None:
        for key, entry in sent:
            if self._pending.get(key) is entry:  # A newer change may have replaced it.
                del self._pending[key]
        self._counts["sent"] += len(sent)
        self._unreported -= dropped
        if self._failures:
            log(
                HOOK_WORKS,
                "the web hook of alarms at %s takes them again, after %d failures",
                self._settings.server,
                self._failures,
            )
        self._failures, self._error = 0, ""
        self._next_at = self._clock() + APART_S

    def _deliver(self, entries: list[tuple[str, AlarmChange]], dropped: int) -> str:
        """Send changes; return the reason of a failure, or nothing."""
        changes: list[Row] = [
            {"id": number, "change": change.change, "at": _time(change.at), "alarm": change.alarm}
            for number, change in entries
        ]
        try:
            status, _ = self._post({"test": False, "dropped": dropped, "changes": changes})
        except (OSError, HTTPException) as error:
            return _reason(error)
        return "" if status in SUCCESSES else f"it answered {status}"

    def _test(self) -> Row:
        """Send a test; return what came back."""
        began = self._clock()
        status: int | None = None
        answer = error = ""
        try:
            status, content = self._post({"test": True, "dropped": 0, "changes": []})
            answer = printable(content.decode(errors="replace").strip()[:SHOWN_LETTERS])
            if status not in SUCCESSES:
                error = f"it answered {status}" + (f": {answer}" if answer else "")
        except (OSError, HTTPException) as failure:
            error = _reason(failure)
        return {
            "url": self._settings.server,
            "status": status,
            "ms": round((self._clock() - began) * 1000),
            "answer": answer,
            "error": error or None,
        }

    def _post(self, fields: Row) -> tuple[int, bytes]:
        """Send a request; return status and answer. If the server has closed the connection, open another once.

        Raises OSError and HTTPException.
        """
        with self._changed:
            settings, context = self._settings, self._context
        at = self._wall()
        head: Row = {"id": secrets.token_hex(16), "sent_at": _time(at), "node": self._node, "version": VERSION}
        body = json.dumps({**head, **fields}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": f"penstock/{VERSION}"}
        if settings.secret:
            headers[SIGNATURE] = signature(settings.secret, int(at), body)
        parts = urlsplit(settings.url)
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        if self._connection is None or self._connection[0] is not settings:
            if self._connection is not None:
                self._connection[1].close()
            self._connection = settings, WebConnection(settings.url, context, self._clock)
        connection = self._connection[1]
        ends = self._clock() + settings.timeout_s
        was_open = connection.is_open
        try:
            try:
                return connection.ask("POST", target, ends, body, headers)
            except ConnectionError:  # RemoteDisconnected is one.
                if not was_open:
                    raise
                connection.close()
            return connection.ask("POST", target, ends, body, headers)
        except (OSError, HTTPException):
            connection.close()
            raise


def _time(at: float) -> str:
    """Return a time (seconds since the epoch) in the form of ISO 8601."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _reason(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)[:SHOWN_LETTERS]
