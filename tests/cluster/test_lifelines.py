"""Lifeline: a child ends with its parent, also one that was late to hold it."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from tests.support.brokers import PATIENCE

PROGRAM = """
import os, sys, time
from penstock.cluster.lifelines import Lifeline

lifeline = Lifeline(by_signal=sys.argv[1] == "signal")
ready, go = os.pipe(), os.pipe()
if not os.fork():
    if sys.argv[2] == "late":
        os.close(go[1])
        os.read(go[0], 1)  # The parent has ended.
    lifeline.hold()
    os.write(ready[1], b"r")
    time.sleep(600)
    os._exit(0)
if sys.argv[2] == "late":
    os._exit(0)
os.read(ready[0], 1)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("way", ["signal", "pipe"])
@pytest.mark.parametrize("when", ["early", "late"])
def test_child_ends_with_its_parent(way: str, when: str) -> None:
    alive, held = os.pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM, way, when], pass_fds=[held], env=environment)
    os.close(held)
    parent.wait(PATIENCE)
    assert select.select([alive], [], [], PATIENCE)[0], "the child lives on"
    assert os.read(alive, 1) == b""
    os.close(alive)
