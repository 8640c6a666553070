"""Runs of many simulations in processes: how they are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.support.commands import hear_interrupts


def test_ctrl_c_ends_a_plan_and_its_processes_with_one_sentence() -> None:
    words = ["plan", "--arrivals", "poisson:2000", "--services", "exponential:1900", "--seconds", "600s"]
    command = [sys.executable, "-m", "penstock", *words, "--goal", "blocked<1%", "--local"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_interrupts
    ) as job:
        assert job.stderr.readline() == "36 simulations\n"
        os.killpg(job.pid, signal.SIGINT)
        said = job.stderr.read()  # Its end is that of all processes.
    assert job.returncode == 130
    assert said.endswith("penstock: interrupted: nothing is recommended\n")
    assert "Traceback" not in said
