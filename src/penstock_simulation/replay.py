"""Replay of a recorded time of a queue: as it was recorded, as a simulation gives it, and with other settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock_simulation.candidate import Candidate
from penstock_simulation.goals import shown
from penstock_simulation.outcome import Outcome
from penstock_simulation.recording import Recording
from penstock_simulation.simulation import simulate

MEASURES = ("depth", "depth_messages", "closed", "crossings", "blocked", "refused", "starved", "wait_p99")
"""Measures that are compared; the log has the first six."""
BOUND = 0.05
"""Share of the producers' time beyond which a recording of blocked producers gives bounds and no predictions."""


def bound(blocked: float) -> str:
    """Return the sentence for what was recorded while producers were blocked for this share of their time; or ""."""
    if blocked <= BOUND:
        return ""
    return (
        f"bound: the log has producers blocked for {blocked:.1%} of their time. What they published in a block counts "
        "as offered when it began, and what they did not publish is not known. With other settings these are bounds"
    )


@dataclass(frozen=True)
class Comparison:
    """Measures of one recorded time."""

    recording: Recording
    recorded: dict[str, float]
    """Measures of the log."""
    same: Outcome
    """Simulated with the settings that were in force."""
    other: Outcome | None
    """Simulated with other settings; None if none were asked for."""
    settings: Candidate
    others: Candidate | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "recorded": self.recorded,
            "bound": bound(self.recording.hidden) != "",
            "simulated": {"settings": self.settings.as_dict(), "outcome": self.same.as_dict()},
            "changed": None
            if self.other is None or self.others is None
            else {"settings": self.others.as_dict(), "outcome": self.other.as_dict()},
        }

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
                line += f"{shown(measure, getattr(self.other, measure)):>14}"
            found.append(line)
        if self.other is not None and bound(self.recording.hidden):
            found.append(bound(self.recording.hidden))
        return found


def _words(candidate: Candidate) -> str:
    return " ".join(f"{name}={value}" for name, value in candidate.queue_settings().items()) or "the defaults"


def compare(recording: Recording, was: Candidate, other: Candidate | None, seed: int = 1) -> Comparison:
    """Replay a recording with the settings that were in force, and with others.

    Raises `penstock_simulation.recording.RecordingError` for a recording without messages.
    """
    workload = recording.workload(seed)
    changed = None if other is None else simulate(workload, other)
    return Comparison(recording, recording.measures(), simulate(workload, was), changed, was, other)
