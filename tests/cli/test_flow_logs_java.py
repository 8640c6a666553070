"""The Java that Spark runs on: found in the places of scripts/jdk.sh, and new enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import flow_logs
from penstock.cli.flow_logs import NoJavaError, java_home


def install(home: Path, version: str) -> Path:
    """Make a Java that tells this version, and nothing else."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    monkeypatch.setattr(flow_logs, "HOMES", tmp_path / "jvm")
    return tmp_path


def test_java_is_that_of_java_home_if_it_is_new_enough(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(nowhere / "jvm" / "java-17", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(install(nowhere / "mine", "21.0.2")))
    assert java_home() == str(nowhere / "mine")
    monkeypatch.setenv("JAVA_HOME", str(install(nowhere / "old", "1.8.0_392")))
    assert java_home() == str(nowhere / "jvm" / "java-17")


def test_java_on_the_path_comes_before_debians_places(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(nowhere / "jvm" / "java-17", "17.0.9")
    home = install(nowhere / "other", "17.0.1")
    (nowhere / "bin").mkdir()
    (nowhere / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", f"{nowhere / 'bin'}:/bin:/usr/bin")
    assert java_home() == str(home)


def test_missing_java_is_reported_in_one_sentence(nowhere: Path) -> None:
    install(nowhere / "jvm" / "java-11", "11.0.1")
    with pytest.raises(
        NoJavaError, match=r"Spark needs a JDK 17 or later, and there is none: install one .* JAVA_HOME$"
    ):
        java_home()
