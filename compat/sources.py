"""Source packages whose tests are run: fetched by pip at pinned hashes, unpacked, never kept in the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

from compat.substitutions import SourcesUnavailable, Substitution, substitute

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "clients" / "suites.lock"
TOOLS_LOCK = ROOT / "requirements" / "clients" / "suites-tools.lock"
_PORT = 'PASSWORD, port=int(__import__("os").environ["RABBITMQ_5672_TCP"]),'
_AMQPSTORM = "amqpstorm/tests/functional"
SUBSTITUTIONS = {
    "amqpstorm": (
        Substitution(f"{_AMQPSTORM}/utility.py", "PASSWORD, **", f"{_PORT} **"),
        Substitution(f"{_AMQPSTORM}/management/test_connection.py", "PASSWORD,\n", f"{_PORT}\n", 2),
        Substitution(f"{_AMQPSTORM}/test_web_based.py", "PASSWORD,\n", f"{_PORT}\n"),
    ),
}
"""What is changed in a project's tests: they take the port for granted."""


def _pip(words: list[str], lock: Path, environment: dict[str, str]) -> None:
    words = [*words, "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", f"--requirement={lock}"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SourcesUnavailable(f"pip could not fetch what {lock.name} says: {last}")


def with_tools(folder: Path) -> dict[str, str]:
    """Return this program's environment with the tools of the folder in front (`install_tools`)."""
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join((str(folder / "bin"), environment["PATH"]))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(folder))))
    return environment


def fetch(folder: Path, tools: Path) -> dict[str, Path]:
    """Return the unpacked source package of each project in the lock; what their tests need besides goes to `tools`.

    pip asks whatever index this machine is configured for. Raises SourcesUnavailable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _pip(["install", f"--target={tools}"], TOOLS_LOCK, dict(os.environ))
    # What pip needs to read a source package's metadata is in the environment or among the tools.
    _pip(["download", "--no-binary=:all:", "--no-build-isolation", f"--dest={folder}"], LOCK, with_tools(tools))
    found = {}
    for archive in sorted(folder.glob("*.tar.gz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        root = folder / archive.name.removesuffix(".tar.gz")
        project = root.name.rpartition("-")[0]
        substitute(root, SUBSTITUTIONS.get(project, ()))
        found[project] = root
    return found
