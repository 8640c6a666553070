"""Finding the Java that Spark runs on, in the places of scripts/jdk.sh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import PenstockError

OLDEST = 17
"""Oldest major version that Spark 4 runs on."""
HOMES = Path("/usr/lib/jvm")
"""Place of Debian's JDKs."""
ASKED_S = 20.0
"""Seconds that a Java has to tell its version."""


class NoJavaError(PenstockError):
    """No Java that is new enough."""


def java_home() -> str:
    """Return the first home that is new enough: JAVA_HOME, java on the path, then Debian's. Raises NoJavaError."""
    for home in _homes():
        if _major(home) >= OLDEST:
            return str(home)
    raise NoJavaError(
        f"Spark needs a JDK {OLDEST} or later, and there is none: install one "
        "(on Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    if HOMES.is_dir():
        yield from sorted(HOMES.iterdir())


def _major(home: Path) -> int:
    """Return the major version of the Java in a home; 0 if there is none."""
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=False, timeout=ASKED_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else 0
