"""Tests of Go modules: they are in the modules as the Go module proxy has them; each go.sum has the hashes.

`python -m compat.golang WORDS` runs `go test` with these words and writes a line for each test (compat/reporting.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compat.reporting import FILE
from compat.substitutions import AMQP_PORT, HTTP_PORT, SourcesUnavailable, Substitution, copy_at, substitute

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Module:
    """A Go module with tests."""

    path: str
    folder: str
    """The folder below compat/ that has go.mod and go.sum: the version and the hashes."""
    oldest: tuple[int, int]
    """The oldest Go that can run the tests."""
    substitutions: tuple[Substitution, ...] = ()
    runner: str = "compat.golang"
    """The program that runs the tests and writes a line for each."""


MODULES = {
    # -skip came with Go 1.20.
    "amqp091-go": Module("github.com/rabbitmq/amqp091-go", "amqp091", (1, 20), (
        Substitution("recovery_test.go", '"15672"', f'"{HTTP_PORT}"'),
        Substitution("internal/utils/http.go", "localhost:15672", f"127.0.0.1:{HTTP_PORT}"),
        # Some tests do nothing, and leave their connections open, where the product is not called so.
        Substitution("integration_test.go", ' == "RabbitMQ" {', ' != "" {', 2),
    )),
    "rabbit-hole": Module("github.com/michaelklishin/rabbit-hole/v3", "rabbithole", (1, 24), (
        Substitution("health_checks_test.go", "127.0.0.1:15672", f"127.0.0.1:{HTTP_PORT}"),
        Substitution("health_checks_test.go", "HealthCheckPortListener(5672)", f"HealthCheckPortListener({AMQP_PORT})"),
        Substitution("rabbithole_test.go", "127.0.0.1:15672", f"127.0.0.1:{HTTP_PORT}", 3),
        Substitution("rabbithole_test.go", "@localhost:5672/", f"@localhost:{AMQP_PORT}/", 2),
        Substitution("rabbithole_test.go", "BeEquivalentTo(5672)", f"BeEquivalentTo({AMQP_PORT})"),
    ), "compat.ginkgo"),
    "watermill-amqp": Module("github.com/ThreeDotsLabs/watermill-amqp/v3", "watermill", (1, 23)),
}  # fmt: skip
"""Modules by the project that a suite names."""
WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def _version(go: str) -> tuple[int, ...]:
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def fetch(module: Module, folder: Path) -> Path:
    """Return a copy of the module. Raises SourcesUnavailable."""
    go = shutil.which("go")
    if go is None or _version(go) < module.oldest:
        raise SourcesUnavailable(f"go {'.'.join(map(str, module.oldest))} or later is not installed.")
    words = [go, "mod", "download", "-json", module.path]
    done = subprocess.run(words, cwd=HERE / module.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (f"{done.stdout}\n{done.stderr}".strip().splitlines() or ["it said nothing"])[-1]
        raise SourcesUnavailable(f"go could not fetch {module.path}: {last}")
    shutil.copytree(json.loads(done.stdout)["Dir"], folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)  # a module's files are read-only
    substitute(folder, module.substitutions)
    return folder


def command(
    module: Module, folder: Path, words: list[str], ports: tuple[int, int], scratch: Path
) -> tuple[list[str], Path]:
    """Return the command that runs the tests with words for `go test`, and a copy of them that knows the ports."""
    copy = copy_at(folder, module.substitutions, ports, scratch)
    return [sys.executable, "-m", module.runner, *words], copy


def outcomes(events: Iterable[str]) -> Iterator[dict[str, str]]:
    """Return what became of each test of its own (not of its parts), from what `go test -json` prints."""
    said: dict[str, str] = {}
    failed = False
    for line in events:
        event = json.loads(line) if line.startswith("{") else {}
        test, action = event.get("Test"), event.get("Action")
        top = (test or "").partition("/")[0]
        if action == "output" and "_test.go:" in event["Output"]:
            said.setdefault(top, event["Output"].strip())
        elif action in WORDS and test == top:
            failed = failed or action == "fail"
            yield {"test": top, "outcome": WORDS[action], "why": "" if action == "pass" else said.get(top, "")}
        elif action == "fail" and test is None and not failed:
            yield {"test": "the whole package", "outcome": "failed", "why": "goroutines were left, or it broke off"}


def main(words: list[str]) -> int:
    """Run `go test` with these words; return its exit code."""
    with (
        subprocess.Popen(["go", "test", "-json", *words], stdout=subprocess.PIPE, text=True) as process,
        Path(os.environ[FILE]).open("a") as file,
    ):
        assert process.stdout is not None

        def echoed(lines: Iterable[str]) -> Iterator[str]:
            for line in lines:
                sys.stdout.write(line)
                yield line

        for one in outcomes(echoed(process.stdout)):
            file.write(json.dumps(one) + "\n")
            file.flush()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
