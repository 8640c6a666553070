"""Processor time by role: the JVM itself, the Python workers below it, the broker."""

import contextlib
import os
from dataclasses import dataclass

from bench.processes import PROC, tree

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpu:
    """Processor seconds of one run, or of its difference to another one."""

    jvm: float
    python: float
    broker: float

    def __sub__(self, other: "Cpu") -> "Cpu":
        """Return what this run cost more."""
        return Cpu(self.jvm - other.jvm, self.python - other.python, self.broker - other.broker)

    def per_million(self, rows: int) -> "Cpu":
        """Return seconds for a million rows."""
        share = 1e6 / rows
        return Cpu(self.jvm * share, self.python * share, self.broker * share)

    @property
    def whole(self) -> float:
        """Return the sum."""
        return self.jvm + self.python + self.broker


def _seconds(pid: int) -> tuple[float, float]:
    """Return the seconds of a process itself, and of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        return own / TICKS, ended / TICKS
    return 0.0, 0.0


def so_far(jvm: int, broker: int | None) -> Cpu:
    """Return what the processes have used since they began. Children of the JVM are Python workers."""
    own, ended = _seconds(jvm)
    workers = sum(sum(_seconds(pid)) for pid in tree(jvm) if pid != jvm)
    return Cpu(own, workers + ended, 0.0 if broker is None else _seconds(broker)[0])
