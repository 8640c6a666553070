"""penstock analyze and penstock log compact, up to the start of Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import flow_logs, main
from penstock.cli.flow_logs import NoJavaError


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The jobs that were started, in the place of Spark."""
    jobs: list[list[str]] = []

    def execve(program: str, command: list[str], environment: Mapping[str, str]) -> None:
        jobs.append([*command[command.index("-m") + 1 :], environment.get("JAVA_HOME", "")])

    monkeypatch.setattr(flow_logs.os, "execve", execve)
    monkeypatch.setattr(flow_logs, "java_home", lambda: "/a/jdk")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return jobs


def test_analyze_becomes_the_job_with_its_options(started: list[list[str]], tmp_path: Path) -> None:
    words = ["analyze", "a", "b", "--from", "2026-11-22", "--queue", "q", "--output", str(tmp_path), "--memory", "2g"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert started == [
        ["pyspark_penstock.analysis", "analyze", "a", "b", "--output", str(tmp_path), "--memory", "2g",
         "--from", "2026-11-22", "--queue", "q", "/a/jdk"]
    ]  # fmt: skip


def test_analyze_without_java_passes_the_reason_to_the_job(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise NoJavaError("there is none")

    monkeypatch.setattr(flow_logs, "java_home", none)
    assert CliRunner().invoke(main, ["analyze", "a", "--master", "local[2]"]).exit_code == 0
    assert started == [
        ["pyspark_penstock.analysis", "analyze", "a", "--output", "penstock-analysis", "--memory", "1g",
         "--master", "local[2]", "--no-java", "there is none", ""]
    ]  # fmt: skip


def test_log_compact_becomes_the_job_with_its_target_and_needs_no_java(started: list[list[str]]) -> None:
    assert CliRunner().invoke(main, ["log", "compact", "a", "b", "--to", "archive"]).exit_code == 0
    assert started == [["pyspark_penstock.analysis", "compact", "a", "b", "--to", "archive", ""]]
    assert CliRunner().invoke(main, ["log", "compact", "a"]).exit_code == 2


def test_analyze_without_the_extra_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["analyze", "a"])
    assert (done.exit_code, done.output) == (
        1, "penstock: pyspark is not installed: `pip install 'penstock[spark]'` installs what this needs\n"
    )  # fmt: skip
