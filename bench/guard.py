"""Guard the hot path: instructions per message to publish, deliver and acknowledge, counted by valgrind's callgrind.

Noise of the machine does not move instruction counts, so a small loss shows at once. Every step is run for N and for
2N messages; the difference divided by N is what one message costs, and what comes before falls out. All steps start
from one process, for start-up under valgrind takes longer than all of them. The recorded values belong to
one CPython minor version, architecture and compiler with its flags; elsewhere they would say nothing.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import penstock
from bench import hotpath, hotpath10

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path(__file__).resolve().parent / "guard.json"
MESSAGES = 5_000
MARK = "getppid"
"""Function at which counting begins anew; see hotpath.mark."""
MARKS = 6
"""How often a step calls it: before and after a few, N and 2N messages."""
TUNABLES = ":".join(f"glibc.cpu.x86_rep_{kind}_threshold={1 << 30}" for kind in ("movsb", "stosb"))
"""Has the C library copy large blocks by vectors. Else it takes one instruction that valgrind counts for each octet,
from a size on that depends on the processor: 200 of 765 for a delivery, by how buffers happened to grow."""
STEPS: dict[str, Callable[..., None]] = {**hotpath.STEPS, **hotpath10.STEPS}
TOLERANCE = 0.03
"""Allowed increase: builds of sources that differ elsewhere differ by up to 2 %, as memory happens to lie."""
Records = list[dict[str, Any]]
"""One for each surroundings: `surroundings`, `instructions` per message by step, and `note`: when and why."""


class GuardError(Exception):
    """Counting failed; the text says how."""


def surroundings() -> dict[str, str]:
    """Return what the counts depend on besides the source."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "machine": platform.machine(),
        "compiler": _compiler(),
        "flags": _flags(),
    }


def _flags() -> str:
    """Return how this interpreter and its extension modules are optimised: half of the work is done in its library."""
    flags = str(sysconfig.get_config_var("PY_CFLAGS") or "").split()
    wanted = [flag for flag in flags if flag.startswith(("-O", "-flto", "-fprofile", "-fstack", "-D_FORTIFY"))]
    return " ".join(dict.fromkeys(wanted)) or "unknown"


def _compiler() -> str:
    """Return name and major version of the compiler that builds extension modules."""
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if not shutil.which(command):
        return "none"
    done = subprocess.run([command, "-dumpversion"], capture_output=True, text=True, check=False)
    return f"{Path(command).name.rpartition('-')[2]} {done.stdout.strip().partition('.')[0]}"


def reason_to_skip() -> str | None:
    """Say in one sentence why nothing can be counted here; None when it can be."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed (Debian: apt-get install valgrind)."
    if not penstock.compiled():
        return "Penstock runs interpreted here; the guard is about the compiled form."
    return None


def reason_not_to_compare(records: Records, here: dict[str, str]) -> str | None:
    """Say in one sentence why no recorded values apply in these surroundings; None when some do."""
    if not records:
        return "No values are recorded; `python -m bench.guard --record WHY` does it."
    if recorded(records, here):
        return None
    there = records[0]["surroundings"]
    names = [name for name in here if there.get(name) != here[name]]
    differences = ", ".join(f"{name} {there.get(name)} and not {here[name]}" for name in names)
    return f"The values were recorded with {differences}."


def count(steps: Sequence[str]) -> Iterator[list[int]]:
    """Yield for each of these steps the instructions between its marks; see hotpath.take_steps."""
    with tempfile.TemporaryDirectory(prefix="penstock-guard-") as scratch:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/%p", f"--dump-before={MARK}",
                   sys.executable, "-m", "bench.hotpath10", str(MESSAGES), *steps]  # fmt: skip
        # Another hash seed would be another order of dictionary probes.
        fixed = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "GLIBC_TUNABLES": TUNABLES}
        environment = os.environ | fixed
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise GuardError(f"`{' '.join(command)}` failed:\n{done.stderr}")
        for pid in done.stdout.split():
            yield [total(Path(scratch, f"{pid}.{number}")) for number in range(1, MARKS + 1)]


def total(counts: Path) -> int:
    """Return the instructions in a file that callgrind wrote."""
    found = re.search(r"^(?:totals|summary):\s*(\d+)", counts.read_text(), re.MULTILINE)
    if not found:
        raise GuardError("callgrind wrote no total.")
    return int(found[1])


def per_message(steps: Sequence[str]) -> dict[str, int]:
    """Return the instructions that one message costs in each of these steps."""
    found = {}
    for step, (_, _, _, once, _, twice) in zip(steps, count(steps), strict=True):
        found[step] = round((twice - once) / MESSAGES)
    return found


def read() -> Records:
    """Return everything that is recorded."""
    return json.loads(RECORD.read_text())["records"] if RECORD.exists() else []


def recorded(records: Records, here: dict[str, str]) -> dict[str, int]:
    """Return the recorded instructions per message of each step in these surroundings; empty when there are none."""
    return next((record["instructions"] for record in records if record["surroundings"] == here), {})


def judge(step: str, found: int, before: int) -> str | None:
    """Say in one sentence what is wrong when a step became more expensive; None when it did not."""
    if found <= before * (1 + TOLERANCE):
        return None
    return f"{step} takes {found} instructions per message, {found / before - 1:.1%} more than the recorded {before}."


def merged(records: Records, here: dict[str, str], found: dict[str, int], note: str) -> Records:
    """Return the records with new values for these surroundings; those of others stay."""
    others = [record for record in records if record["surroundings"] != here]
    return [*others, {"surroundings": here, "instructions": found, "note": note}]


def main() -> int:
    """Count every step; 1 when one became more expensive, 0 otherwise and when nothing can be compared."""
    parser = argparse.ArgumentParser(prog="bench.guard", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", metavar="WHY", help="take the values found here as the new measure; say why")
    wanted = parser.parse_args()
    records, here = read(), surroundings()
    before = recorded(records, here)
    reason = reason_to_skip() or (None if wanted.record else reason_not_to_compare(records, here))
    if reason:
        print(f"Skipped: {reason}")
        return 0
    found = per_message(tuple(STEPS))
    complaints = []
    for step, action in STEPS.items():
        note = f"recorded {before[step]}" if step in before else "not recorded yet"
        print(f"{step:9} {found[step]:6} instructions per message ({note}): {action.__doc__}", flush=True)
        if step in before and (complaint := judge(step, found[step], before[step])):
            complaints.append(complaint)
    if wanted.record:
        note = f"{datetime.datetime.now(datetime.UTC).date()}: {wanted.record}"
        RECORD.write_text(json.dumps({"records": merged(records, here, found, note)}, indent=2) + "\n")
        print(f"Recorded in {RECORD}.")
        return 0
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
