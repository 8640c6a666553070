"""The cost of a command: its time, its processor time, and the most memory of its JVM and of its Python processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.processes import PROC, tree

EVERY_S = 0.5
"""Seconds between two looks at the memory."""
MIB = 1 << 20


@dataclass
class Cost:
    """What a command has cost."""

    code: int
    seconds: float
    cpu: float
    """Processor seconds of all its processes."""
    jvm_mib: float
    """Most resident memory of its JVMs together, as far as the looks saw it."""
    python_mib: float
    """The same of everything else."""
    load: tuple[float, float, float]
    """Load averages of the machine at the end."""

    def words(self) -> str:
        """Return it as one line."""
        load = ", ".join(f"{each:.1f}" for each in self.load)
        return (
            f"{self.seconds:,.0f} s, {self.cpu:,.0f} s of processor time, at most {self.jvm_mib:,.0f} MiB in the JVM "
            f"and {self.python_mib:,.0f} MiB in Python; load averages {load}"
        )


def run(command: Sequence[str], environment: Mapping[str, str], output: Path) -> Cost:
    """Run a command, with what it prints in a file."""
    began = time.monotonic()
    jvm = python = 0.0
    used: dict[int, float] = {}
    with output.open("w") as lines:
        process = subprocess.Popen(command, env=dict(environment), stdout=lines, stderr=subprocess.STDOUT)
        while True:
            try:
                process.wait(EVERY_S)
                break
            except subprocess.TimeoutExpired:
                looks = {pid: look for pid in tree(process.pid) if (look := _look(pid)) is not None}
                used |= {pid: look.cpu for pid, look in looks.items()}  # The JVM ends after its parent, unwaited for.
                jvm = max(jvm, sum(look.mib for look in looks.values() if look.is_jvm))
                python = max(python, sum(look.mib for look in looks.values() if not look.is_jvm))
    return Cost(process.returncode, time.monotonic() - began, sum(used.values()), jvm, python, os.getloadavg())


@dataclass(frozen=True)
class _Look:
    """A process at one moment."""

    is_jvm: bool
    mib: float
    cpu: float


def _look(pid: int) -> _Look | None:
    """Look at a process; None if it has ended."""
    try:
        name, _, rest = (PROC / str(pid) / "stat").read_text().rpartition(")")
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except OSError:
        return None
    fields = rest.split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return _Look(name.endswith("(java"), pages * os.sysconf("SC_PAGE_SIZE") / MIB, cpu)
