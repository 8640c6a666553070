"""The tests of amqp091-go: they are in the module as the Go module proxy has it; go.sum has the hashes.

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
from pathlib import Path

from compat.reporting import FILE
from compat.substitutions import SourcesUnavailable, Substitution, substitute

PROJECT = "amqp091-go"
MODULE = "github.com/rabbitmq/amqp091-go"
HERE = Path(__file__).resolve().parent / "amqp091"
HTTP_PORT = "@HTTP_PORT@"

SUBSTITUTIONS = (
    Substitution("recovery_test.go", '"15672"', f'"{HTTP_PORT}"'),
    Substitution("internal/utils/http.go", "localhost:15672", f"127.0.0.1:{HTTP_PORT}"),
    # Some tests do nothing, and leave their connections open, where the product is not called so.
    Substitution("integration_test.go", ' == "RabbitMQ" {', ' != "" {', 2),
)
OLDEST = (1, 20)
"""What the module asks for, and the first that can leave tests out (`-skip`)."""
WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def _version(go: str) -> tuple[int, ...]:
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def fetch(folder: Path) -> Path:
    """Return a copy of the module. Raises SourcesUnavailable."""
    go = shutil.which("go")
    if go is None or _version(go) < OLDEST:
        raise SourcesUnavailable(f"go {'.'.join(map(str, OLDEST))} or later is not installed.")
    words = [go, "mod", "download", "-json", MODULE]
    done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (f"{done.stdout}\n{done.stderr}".strip().splitlines() or ["it said nothing"])[-1]
        raise SourcesUnavailable(f"go could not fetch {MODULE}: {last}")
    shutil.copytree(json.loads(done.stdout)["Dir"], folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)  # a module's files are read-only
    substitute(folder, SUBSTITUTIONS)
    return folder


def at(folder: Path, http_port: int, scratch: Path) -> Path:
    """Return a copy that asks for the HTTP API at this port."""
    copy = scratch / f"{PROJECT}-{http_port}"
    shutil.copytree(folder, copy)
    for one in SUBSTITUTIONS:
        path = copy / one.path
        path.write_text(path.read_text().replace(HTTP_PORT, str(http_port)))
    return copy


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
