"""penstock analyze and penstock log compact, up to the start of Spark."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import log_commands, main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The jobs that were started, in the place of Spark."""
    jobs: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["env"]["JAVA_HOME"] == "/a/jdk"
        jobs.append(command[command.index("-m") + 1 :])
        return subprocess.CompletedProcess(command, len(jobs) - 1)

    monkeypatch.setattr(log_commands.subprocess, "run", run)
    monkeypatch.setattr(log_commands, "java_home", lambda: "/a/jdk")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return jobs


def test_analyze_starts_the_job_with_its_options(started: list[list[str]], tmp_path: Path) -> None:
    words = ["analyze", "a", "b", "--from", "2026-11-22", "--queue", "q", "--output", str(tmp_path), "--memory", "2g"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert started == [
        ["pyspark_penstock.analysis", "--master", "local[*]", "--memory", "2g", "analyze", "a", "b",
         "--output", str(tmp_path), "--from", "2026-11-22", "--queue", "q"]
    ]  # fmt: skip
    assert CliRunner().invoke(main, words).exit_code == 1


def test_log_compact_starts_the_job_with_its_target(started: list[list[str]]) -> None:
    assert CliRunner().invoke(main, ["log", "compact", "a", "b", "--to", "archive"]).exit_code == 0
    assert started[0][5:] == ["compact", "a", "b", "--to", "archive"]
    assert CliRunner().invoke(main, ["log", "compact", "a"]).exit_code == 2


def test_analyze_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["analyze", "a"])
    assert (done.exit_code, done.output) == (
        1, "penstock: pyspark is not installed: `pip install 'penstock[spark]'` installs what this needs\n"
    )  # fmt: skip
