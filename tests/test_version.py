"""The version of the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

from penstock.version import VERSION


def test_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
