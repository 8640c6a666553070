"""The log on standard error: complete while it is read, bounded and honest while it is not."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys
from penstock.server.logs import logging_to_stderr

log = logging.getLogger("penstock")
with logging_to_stderr():
    for number in range(int(sys.argv[1])):
        log.info("line %d", number)
    print("logged", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("lines", [1, 5_000])
def test_every_line_is_written_with_its_time(lines: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lines)], input="\n", capture_output=True, text=True, timeout=60, check=True
    )
    written = done.stderr.splitlines()
    assert [line.partition(" line ")[2] for line in written] == [str(number) for number in range(lines)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", line.partition(" line ")[0]) for line in written)


def test_log_that_nobody_reads_delays_nobody_and_says_what_was_dropped() -> None:
    lines = 100_000
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(lines)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "logged\n"  # The pipe is full by then, and so is what may wait for it.
    written, dropped = 0, 0
    for line in process.stderr:
        found = re.fullmatch(r"([\d,]+) lines of this log were dropped: .*\n", line)
        if found:
            dropped += int(found[1].replace(",", ""))
        else:
            written += 1
        if written + dropped == lines:
            break
    assert dropped > 0
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
