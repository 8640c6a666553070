"""Tests of Rust crates: they are in the crates as crates.io has them; Cargo.lock has the hashes.

`python -m compat.rust WORDS` runs `cargo test` with these words and writes a line for each test (compat/reporting.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from compat.reporting import FILE
from compat.substitutions import AMQP_PORT, HTTP_PORT, SourcesUnavailable, Substitution, copy_at, substitute

HERE = Path(__file__).resolve().parent / "crates"
BUILT = HERE.parents[1] / "build" / "cargo"
"""What is compiled for the tests; only the crates themselves are compiled again in each run."""


@dataclass(frozen=True)
class Crate:
    """A crate with tests."""

    substitutions: tuple[Substitution, ...]
    features: str = ""


def _helpers(file: str) -> tuple[Substitution, ...]:
    return (
        Substitution(file, "localhost:15672", f"localhost:{HTTP_PORT}"),
        Substitution(file, "amqp://localhost:5672", f"amqp://localhost:{AMQP_PORT}"),
    )


_TESTS = "tests/integration"
CRATES = {
    "rabbitmqadmin": Crate((
        *_helpers(f"{_TESTS}/test_helpers.rs"),
        Substitution(f"{_TESTS}/health_check_tests.rs", "15672", HTTP_PORT),
        Substitution(f"{_TESTS}/verbose_tests.rs", "15672", HTTP_PORT),
        Substitution("tests/fixtures/config_files/config_file1.conf", "15672", HTTP_PORT),
        Substitution("tests/fixtures/config_files/test_config.toml", "15672", HTTP_PORT, 2),
        Substitution("src/constants.rs", "15672", HTTP_PORT),
    )),
    "rabbitmq_http_client": Crate((
        *_helpers(f"{_TESTS}/test_helpers.rs"),
        # Their tests with TLS need another library of TLS.
        Substitution(f"{_TESTS}/main.rs", "mod async_tls_tests;\n", ""),
        Substitution(f"{_TESTS}/main.rs", "mod blocking_tls_tests;\n", ""),
        Substitution(f"{_TESTS}/test_helpers.rs", "5672, USERNAME", f"{AMQP_PORT}, USERNAME"),
        Substitution(f"{_TESTS}/async_connection_tests.rs", "5672, USERNAME", f"{AMQP_PORT}, USERNAME", 2),
        Substitution(f"{_TESTS}/async_channel_tests.rs", "5672, USERNAME", f"{AMQP_PORT}, USERNAME", 4),
        Substitution(f"{_TESTS}/async_health_checks_tests.rs", "listener(15672)", f"listener({HTTP_PORT})"),
        Substitution(f"{_TESTS}/blocking_health_checks_tests.rs", "listener(15672)", f"listener({HTTP_PORT})"),
    ), "async,blocking,tabled,zeroize"),
}  # fmt: skip
"""Crates by the project that a suite names."""
WORDS = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
_ENDED = re.compile(r"test (\S+)(?: - should panic)? \.\.\. (?:.* )?(ok|FAILED|ignored)\b")
_PANIC = re.compile(r"thread '([^']+)'.* panicked at .*:$")


@cache
def packages() -> dict[str, Path]:
    """Return the folder of each crate of the lock, once cargo has fetched it. Raises SourcesUnavailable."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise SourcesUnavailable("cargo is not installed.")
    words = [cargo, "metadata", "--locked", "--format-version=1", f"--manifest-path={HERE / 'Cargo.toml'}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SourcesUnavailable(f"cargo could not fetch what {HERE.name}/Cargo.lock says: {last.strip()}")
    known = json.loads(done.stdout)
    (ours,) = (node for node in known["resolve"]["nodes"] if node["id"] == known["resolve"]["root"])
    wanted = [each for each in known["packages"] if each["id"] in ours["dependencies"]]
    return {each["name"]: Path(each["manifest_path"]).parent for each in wanted}


def fetch(name: str, folder: Path) -> Path:
    """Return a copy of the crate. Raises SourcesUnavailable."""
    shutil.copytree(packages()[name], folder)
    substitute(folder, CRATES[name].substitutions)
    return folder


def command(name: str, folder: Path, words: list[str], ports: tuple[int, int], scratch: Path) -> tuple[list[str], Path]:
    """Return the command that builds and runs the integration tests one after the other, and its folder."""
    crate = CRATES[name]
    copy = copy_at(folder, crate.substitutions, ports, scratch)
    features = ["--features", crate.features] if crate.features else []
    return [sys.executable, "-m", "compat.rust", *features, "--", "--test-threads=1", *words], copy


def outcomes(lines: Iterable[str]) -> list[dict[str, str]]:
    """Return what became of each test, from what a test program prints; why is the first line of its panic."""
    ended: dict[str, str] = {}
    why: dict[str, str] = {}
    panicked = running = ""
    for line in lines:
        begun = re.match(r"test (\S+) \.\.\. ", line)
        running = begun[1] if begun else running
        if found := _ENDED.match(line):
            ended[found[1]] = WORDS[found[2]]
        elif line.strip() in WORDS and running:  # what it prints itself stands between
            ended.setdefault(running, WORDS[line.strip()])
        if panic := _PANIC.match(line.strip()):
            panicked = panic[1]
        elif panicked and line.strip():
            why.setdefault(panicked, line.strip()[:300])
            panicked = ""
    why.update((test, "left out by its authors") for test, outcome in ended.items() if outcome == "skipped")
    return [
        {"test": test, "outcome": outcome, "why": why.get(test, "") if outcome != "passed" else ""}
        for test, outcome in ended.items()
    ]


def main(words: list[str]) -> int:
    """Run `cargo test` with these words; return its exit code."""
    # Without symbols for debuggers the build takes half the time and a quarter of the space.
    environment = os.environ | {"CARGO_TARGET_DIR": str(BUILT), "CARGO_PROFILE_TEST_DEBUG": "false"}
    environment["CARGO_PROFILE_DEV_DEBUG"] = "false"
    words = ["cargo", "test", "--locked", "--test", "integration", *words]
    lines = []
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            lines.append(line)
    with Path(os.environ[FILE]).open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in outcomes(lines))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
