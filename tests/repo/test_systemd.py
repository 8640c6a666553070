"""The unit of systemd: valid, hardened, and true to the broker."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.cli.serve import serve

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "penstock.service"
EXPOSURE_MOST = 15
"""Most exposure, in tenths: 1.5 of 10."""


def service() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser["Service"]


def analyzed(*words: str) -> None:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("there is no systemd-analyze here")
    done = subprocess.run([found, *words, str(UNIT)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in done.stderr.splitlines() if "penstock" in line], done.stderr


def test_unit_is_valid() -> None:
    analyzed("verify", "--man=no")


def test_unit_is_hardened() -> None:
    analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MOST}", "--no-pager")


def test_unit_has_the_options_that_the_broker_needs() -> None:
    unit = service()
    assert (unit["Type"], unit["Restart"], unit["ProtectSystem"]) == ("notify", "on-failure", "strict")
    assert int(unit["WatchdogSec"]) > 10
    assert int(unit["LimitNOFILE"]) >= 100_000
    assert "HUP" in unit["ExecReload"]
    options = set(re.findall(r"--[a-z-]+", unit["ExecStart"]))
    known = {option for each in serve.params for option in each.opts}
    assert options <= known
    assert f"{UNIT.relative_to(ROOT)}" in (ROOT / "docs" / "install.md").read_text()
