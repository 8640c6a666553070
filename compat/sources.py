"""Source packages whose tests are run: fetched by pip at pinned hashes, unpacked, never kept in the repository."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "suites.lock"


class SourcesUnavailable(Exception):
    """The source packages cannot be had; the text says why in one sentence."""


def fetch(folder: Path) -> dict[str, Path]:
    """Return the unpacked source package of each project in the lock.

    pip asks whatever index this machine is configured for. Raises SourcesUnavailable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary=:all:"]
    # What pip needs to read a source package's metadata is in the environment already, at versions of the lock.
    words += ["--no-build-isolation", "--require-hashes", f"--requirement={LOCK}", f"--dest={folder}"]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SourcesUnavailable(f"pip could not fetch the source packages of {LOCK.name}: {last}")
    found = {}
    for archive in sorted(folder.glob("*.tar.gz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        root = folder / archive.name.removesuffix(".tar.gz")
        found[root.name.rpartition("-")[0]] = root
    return found
