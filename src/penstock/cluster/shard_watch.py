"""Watch over one shard: when its process is started, when it is killed, and when it is given up.

Pure: the caller gives the time, and starts and kills. Silence is counted by the ticks of the caller, and a tick counts
a few seconds at most: a node that was suspended for an hour has heard nothing for an hour, and its shards have not
hung.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

AWAY: Final = "away"
"""No process; the next one is started at a known time."""
STARTING: Final = "starting"
SERVING: Final = "serving"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
"""No process, and none is started by itself."""
IN_ORDER: Final = "ended with status 0"
"""Cause of the end of a process that has stopped in order."""


class Patience(NamedTuple):
    """Times of a watch, in seconds."""

    pauses_s: tuple[float, ...] = (0.0, 1.0, 5.0, 15.0)
    """Pause before the next start, by the number of deaths within `span_s` before this one."""
    span_s: float = 60.0
    """Time in which deaths are counted. One more death than there are pauses ends the attempts."""
    answer_s: float = 10.0
    """Longest silence of a process."""
    ping_s: float = 1.0
    """Time between two questions to a process, and between two ticks."""
    stop_s: float = 30.0
    """Longest time from the request to stop to the end."""
    silence_s: float = 2.0
    """Silence after which a process is missing in an answer (server/inside.py has the same)."""


def obstacle(watch: ShardWatch | None, name: str, now: float) -> str:
    """Return why a shard does not serve, for people; empty if it serves. A shard without a watch is new."""
    if watch is None:
        return f"shard '{name}' has not started"
    return "" if watch.state == SERVING else watch.sentence(now)


class ShardWatch:
    """State of one shard, as its node sees it."""

    def __init__(self, name: str, now: float, patience: Patience | None = None) -> None:
        self.name = name
        self.patience = patience or Patience()
        self.state = AWAY
        self.since = now
        """Time at which the state began."""
        self.start_at = now
        """Time of the next start, while the shard is away."""
        self.pid = 0
        """Process; 0 without one."""
        self.starts = 0
        """Number of processes so far."""
        self.cause = ""
        """Cause of the last death; empty before the first."""
        self.restarts = 0
        """Number of restarts that were requested."""
        self._reason = ""
        """Reason that the process has given for its end, or for which it is killed; empty without one."""
        self._returns = False
        """True while the process is to stop so that another one can start."""
        self._deaths: deque[float] = deque(maxlen=len(self.patience.pauses_s) + 1)
        self._silent_s = 0.0
        self._ticked = now

    @property
    def has_process(self) -> bool:
        """True from the request of a process until its end."""
        return self.state in (STARTING, SERVING, STOPPING)

    @property
    def is_stopping(self) -> bool:
        """True after the request to stop."""
        return self.state in (STOPPING, STOPPED)

    @property
    def is_starting(self) -> bool:
        """True from the request of a process until it serves."""
        return self.state == STARTING

    @property
    def is_restarting(self) -> bool:
        """True from the request to restart until the end of the process."""
        return self.state == STOPPING and self._returns

    def is_due(self, now: float) -> bool:
        """Return whether a process must be started now."""
        return self.state == AWAY and now >= self.start_at

    def begin(self, now: float) -> None:
        """Record that a process was requested."""
        self._enter(STARTING, now)
        self.starts += 1
        self._reason = ""
        self._silent_s = 0.0
        self._ticked = now

    def serve(self, now: float) -> bool:
        """Record that the process serves; return whether that is new."""
        if self.state != STARTING:
            return False
        self._enter(SERVING, now)
        return True

    def hear(self) -> None:
        """Record that the process has sent something."""
        self._silent_s = 0.0

    def blame(self, reason: str) -> None:
        """Record the reason for the end that follows; the first one counts."""
        self._reason = self._reason or reason

    def stop(self, now: float) -> None:
        """Record that the shard is to stop, and not to be started again by itself."""
        self._returns = False
        self._enter(STOPPING if self.has_process else STOPPED, now)

    def restart(self, now: float) -> None:
        """Record that the process is to stop, and the next one to start at once; a shard without one starts at once.

        The deaths of a shard that has no process are forgotten. A process that starts is new already.
        """
        if self.state == STARTING or self.is_restarting:
            return
        self.restarts += 1
        if self.has_process:
            self._returns = True
            self._enter(STOPPING, now)
        else:
            self._deaths.clear()
            self.start_at = now
            self._enter(AWAY, now)

    def revive(self, now: float) -> None:
        """Begin anew with a shard that is stopped: its deaths are forgotten."""
        if self.state == STOPPED:
            self._deaths.clear()
            self.start_at = now
            self._enter(AWAY, now)

    def tick(self, now: float) -> bool:
        """Count silence; return whether the process must be killed."""
        self._silent_s += min(max(0.0, now - self._ticked), 2 * self.patience.ping_s)
        self._ticked = now
        if self.state == STOPPING and now - self.since >= self.patience.stop_s:
            self.blame(f"it had not ended {self.patience.stop_s:g} s after the request to stop")
            return True
        if self.has_process and self._silent_s >= self.patience.answer_s:
            self.blame(f"it had not answered for {self.patience.answer_s:g} s")
            return True
        return False

    def end(self, now: float, cause: str) -> None:
        """Record the end of the process, or that there could be none."""
        self.pid = 0
        if self.is_restarting:
            if cause != IN_ORDER:
                self.cause = self._caused(cause)
            self._returns = False
            self.start_at = now
            self._enter(AWAY, now)
            return
        self.cause = self._caused(cause)
        if self.is_stopping:
            self._enter(STOPPED, now)
            return
        patience = self.patience
        while self._deaths and now - self._deaths[0] > patience.span_s:
            self._deaths.popleft()
        before = len(self._deaths)
        self._deaths.append(now)
        if before >= len(patience.pauses_s):
            self._enter(STOPPED, now)
            return
        self.start_at = now + patience.pauses_s[before]
        self._enter(AWAY, now)

    def _caused(self, cause: str) -> str:
        return f"{cause}: {self._reason}" if self._reason else cause

    def sentence(self, now: float) -> str:
        """Return the state, for people."""
        since = f"for {now - self.since:.0f} s"
        if self.state == STOPPED and len(self._deaths) > len(self.patience.pauses_s):
            times = "once" if len(self._deaths) == 1 else f"{len(self._deaths)} times"
            return (
                f"shard '{self.name}' is stopped: it died {times} in {self.patience.span_s:g} s, "
                f"the last time it {self.cause}"
            )
        if self.state == AWAY and self.cause:
            return f"shard '{self.name}' has been away {since}, and is started again: it {self.cause}"
        return f"shard '{self.name}' has been {self.state} {since}"

    def _enter(self, state: str, now: float) -> None:
        self.state = state
        self.since = now
