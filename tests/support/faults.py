"""Disks that fail, and clocks that are wrong: real calls of the operating system, with a library before them.

See failing_disk.c. And small file systems, for those that are full.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("failing_disk.c")


def make_library(folder: Path) -> Path:
    """Return the library that lets a disk fail, compiled; skips the test where that cannot be done."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("Calls of the operating system can be made to fail on Linux, where there is a C compiler.")
    made = folder / "failing_disk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(made), str(SOURCE)], check=True)
    return made


class Disk:
    """A disk that fails when it is told to."""

    def __init__(self, library: Path, switch: Path) -> None:
        self._switch = switch
        self.environment = {"LD_PRELOAD": str(library), "FAILING": str(switch)}

    def fail(self, words: str) -> None:
        """Fail from now on, as the words say; see failing_disk.c."""
        self._switch.write_text(words)

    def work(self) -> None:
        """Work from now on."""
        self._switch.unlink()


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size (such as 3m, and mount's other options behind a comma) on a folder that is made.

    Skips the test where this process may not.
    """
    place.mkdir(exist_ok=True)
    if not mount(place, f"size={size}"):
        pytest.skip("This process may mount no file system of its own.")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(ballast: Path) -> None:
    """Leave no room on a disk."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def mount(place: Path, options: str) -> bool:
    """Mount a file system in memory, or change one; tells whether this process may."""
    words = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    return os.geteuid() == 0 and subprocess.run(words, capture_output=True).returncode == 0
