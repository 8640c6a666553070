"""Replay of a recorded time of a queue: as recorded, as simulated, and with other settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.logs import flowlog
from penstock_simulation.candidate import Candidate
from penstock_simulation.goals import shown
from penstock_simulation.outcome import Outcome
from penstock_simulation.recording import Recording
from penstock_simulation.simulation import simulate

MEASURES = ("depth", "depth_messages", "closed", "crossings", "blocked", "refused", "starved", "wait_p99")
"""Measures that are compared; the log has the first six."""
MARK = "bound"
"""Word beside each measure that is a bound instead of a prediction."""


def bound(blocked: float) -> str:
    """Return the sentence for a log in which producers were blocked for this share of the recorded time; or ""."""
    if blocked <= flowlog.BOUND:
        return ""
    return (
        f"{MARK}: producers were blocked for {blocked:.1%} of the log. What they did not publish is not in it. "
        "So it has a lower bound of the offered load, and other settings give bounds and no predictions"
    )


def marked(text: str, blocked: float) -> str:
    """Return the text of a measure with other settings, marked if it is a bound."""
    return f"{text}  {MARK}" if bound(blocked) else text


@dataclass(frozen=True)
class Comparison:
    """Measures of one recorded time."""

    recording: Recording
    recorded: dict[str, float]
    """Measures of the log."""
    same: Outcome
    """Simulated with the recorded settings."""
    other: Outcome | None
    """Simulated with other settings; None without any."""
    settings: Candidate
    others: Candidate | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        is_bound = bound(self.recording.blocked_share) != ""
        same: dict[str, Any] = {"settings": self.settings.as_dict(), "bound": False, "outcome": self.same.as_dict()}
        changed: dict[str, Any] | None = None
        if self.other is not None and self.others is not None:
            changed = {"settings": self.others.as_dict(), "bound": is_bound, "outcome": self.other.as_dict()}
        return {"recorded": self.recorded, "bound": is_bound, "simulated": same, "changed": changed}

    def lines(self) -> list[str]:
        """Return the comparison as lines of a table."""
        found = [
            f"queue {self.recording.queue}: {self.recording.messages:,} messages in {self.same.seconds:,.0f} s",
            f"settings in force: {_words(self.settings)}",
        ]
        if self.others is not None:
            found.append(f"other settings:    {_words(self.others)}")
        if self.recording.lost:
            found.append(f"the log has lost {self.recording.lost:,} records of this time")
        if self.recording.summed:
            found.append(f"{self.recording.summed:,} events of this time are sums of a user or virtual host")
        restarts = len(self.recording.runs) - 1
        if restarts > 0:
            times = "once" if restarts == 1 else f"{restarts} times"
            found.append(f"the broker was started {times} in it, which is not replayed")
        head = f"{'':<16}{'recorded':>14}{'simulated':>14}" + (f"{'with others':>14}" if self.other else "")
        window = "not known from the log" if self.recording.window is None else "as in the log"
        found.append(f"window of producers: {self.settings.window} ({window}); settled at once: {self.recording.step}")
        found += ["", head]
        for measure in MEASURES:
            line = f"{measure:<16}"
            line += f"{shown(measure, self.recorded[measure]) if measure in self.recorded else '-':>14}"
            line += f"{shown(measure, getattr(self.same, measure)):>14}"
            if self.other is not None:
                line = marked(f"{line}{shown(measure, getattr(self.other, measure)):>14}", self.recording.blocked_share)
            found.append(line)
        if self.other is not None and bound(self.recording.blocked_share):
            found.append(bound(self.recording.blocked_share))
        return found


def _words(candidate: Candidate) -> str:
    words = " ".join(f"{name}={value}" for name, value in candidate.queue_settings().items()) or "the defaults"
    return f"{words} (at the length; the capacity holds publishers)" if candidate.holds_at_capacity else words


def compare(recording: Recording, was: Candidate, other: Candidate | None, seed: int = 1) -> Comparison:
    """Replay a recording with the recorded settings, and with others.

    Raises `penstock_simulation.recording.RecordingError` for a recording without messages.
    """
    workload = recording.workload(seed)
    changed = None if other is None else simulate(workload, other)
    return Comparison(recording, recording.measures(), simulate(workload, was), changed, was, other)
