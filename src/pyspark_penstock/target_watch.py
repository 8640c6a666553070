"""Requests of a waiting sink task: whether its target is full, the broker silent, or its connection forgotten.

A firewall that forgets a connection drops its packets silently, and TCP detects that only after a quarter of an hour.
To a task this looks like a full target: no confirm arrives. So a waiting task asks the broker, on a separate
connection, for the state of the first connection (`sink.waiting`). A connection counts as forgotten if the broker does
not know it. A connection also counts as forgotten if it has no block under way, and has received nothing since the
previous request, for the time of `publishCheck`. Slow networks, slow disks and closed gates do not count.
"""

import os
import time

from penstock.client.errors import ConnectionClosed, ControlError
from pyspark_penstock.connections import BrokerLink
from pyspark_penstock.errors import SparkSourceError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Retries, SinkOptions
from pyspark_penstock.parsing import Address

ASK_SECONDS = 3.0
"""Longest time between two requests, in seconds; a short `publishCheck` makes it a quarter of that."""
ANSWER_SECONDS = 2.0
"""Seconds to wait for the answer, and for its connection."""
PAUSE_SECONDS_MAX = 30.0
"""Longest pause between two unanswered requests; each is twice the pause before."""
CHECKS_MOST = 16
"""Most times that the time of `publishCheck` is doubled, while connections are given up in vain."""


class TargetWatch:
    """Requests of one waiting task about its target, on a connection that is opened for the first one."""

    def __init__(self, options: SinkOptions, server: Address, application: str = "", cores: int = 0) -> None:
        """Store the target without connecting."""
        self._options, self._server = options, server
        self._fields = {"application": application, "cores": cores, "queue": options.queue or ""}
        self._fields["task"] = f"{os.getpid()} {id(self)}"
        self._link = BrokerLink(options.access, server, Retries(1, 1), ANSWER_SECONDS)
        self._check = options.check_ms / 1000
        self._ask_at = 0.0
        self._pause = self.step
        """Seconds until the next request; the pause grows while the broker does not answer."""
        self._since = 0.0
        self._name = ""
        self._received = -1
        """Bytes that the broker had from an idle connection at the previous request; -1 if it was not idle."""
        self.warning = ""
        """Last answer of the broker about a reader without cores."""
        self.standing = ""
        """Reason for which the task waits, as far as known; empty if it does not wait."""
        self.is_silent = False
        """True if the last request has no answer."""

    @property
    def step(self) -> float:
        """Seconds between two requests."""
        return min(ASK_SECONDS, self._check / 4)

    def look(self, since: float, name: str | None) -> None:
        """Ask the broker, if it is time; `since` is the time of the last confirm (monotonic seconds).

        `name` is the name of the connection that waits for an answer, None without one. Raises
        `penstock.ConnectionClosed` if that connection was forgotten.
        """
        now = time.monotonic()
        if since != self._since:
            self._since, self._received, self._check = since, -1, self._options.check_ms / 1000
            self.standing = ""
        if name != self._name:
            self._name, self._received = name or "", -1
        if now < max(since + self.step, self._ask_at):
            return
        fields = self._fields if name is None else {**self._fields, "connection": name}
        try:
            # A separate connection: the broker may read nothing from a connection whose publishes wait.
            found = self._link.ask("sink.waiting", fields)
        except ControlError:
            self._ask_at = time.monotonic() + self.step
            return
        except SparkSourceError as error:
            self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
            self._ask_at = time.monotonic() + self._pause
            self._received, self.standing = -1, f"nobody answers at {self._server}: {error}"
            self.is_silent = True
            return
        self.is_silent = False
        self._pause = self.step
        self._ask_at = time.monotonic() + self.step
        self._take_warning(str(found.get("warning", "")))
        state = found.get("connection")
        if isinstance(state, dict):
            self._judge(state, now - since)

    def _judge(self, state: dict[str, object], waited: float) -> None:
        """Evaluate the broker's state of the connection.

        Raises `penstock.ConnectionClosed` for a forgotten connection.
        """
        waits = state.get("waits")
        received = state.get("received")
        if state.get("open") is not True:
            self._give_up("the broker has closed it")
        elif isinstance(waits, list) and waits:
            self._received, self.standing = -1, f"the target is full: {'; '.join(map(str, waits))}"
        elif state.get("blocks") != 0 or state.get("paused") is not False or not isinstance(received, int):
            self._received, self.standing = -1, "the broker works on it"
        elif received == self._received and waited >= self._check:
            self._give_up(f"for {waited:.0f} s no confirm has come, and the broker has nothing of it that waits")
        else:
            self._received, self.standing = received, "the broker has no block of it"

    def _give_up(self, text: str) -> None:
        self._received, self.standing = -1, ""
        self._check = min(2 * self._check, self._options.check_ms / 1000 * CHECKS_MOST)
        raise ConnectionClosed(None, f"the connection to {self._server} was lost without a word: {text}")

    def _take_warning(self, warning: str) -> None:
        if warning and not self.warning:
            LOG.warning("%s", warning)
        self.warning = warning

    def close(self) -> None:
        """Close the connection of the requests."""
        self._link.close()
