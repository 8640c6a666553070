"""What is installed is what the sources say, in the form that is reported."""

import importlib
import importlib.metadata
import pkgutil
import re
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import penstock
from tests.support.source_trees import pure_packages

ROOT = Path(__file__).resolve().parents[2]


def pure_modules() -> list[str]:
    names = []
    for package in pure_packages():
        module = importlib.import_module(f"penstock.{package.replace('/', '.')}")
        names += [info.name for info in pkgutil.walk_packages(module.__path__, module.__name__ + ".") if not info.ispkg]
    return names


def test_pure_modules_run_in_the_form_that_is_reported() -> None:
    paths = [importlib.import_module(name).__file__ or "" for name in pure_modules()]
    assert [path for path in paths if path.endswith(tuple(EXTENSION_SUFFIXES)) is not penstock.compiled()] == []


def test_packages_whose_form_is_reported_are_those_that_the_build_compiles() -> None:
    assert set(penstock._PURE_PACKAGES) == set(pure_packages())


def test_version_is_the_same_in_the_package_and_in_its_metadata() -> None:
    assert penstock.__version__ == importlib.metadata.version("penstock")


def test_version_has_one_place() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "penstock.version.VERSION"}


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").rglob("*.lock")), ids=lambda path: path.name)
def test_lock_pins_every_package_by_hash_and_names_no_registry(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    pins = [number for number, line in enumerate(lines) if "==" in line and not line.startswith((" ", "#"))]
    assert pins
    assert [lines[number] for number in pins if "--hash=sha256:" not in lines[number + 1]] == []
    assert [line for line in lines if "://" in line or line.startswith("-")] == []


def test_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'Brokre'"):
        _ = penstock.Brokre  # type: ignore[attr-defined]


def test_version_of_pyspark_is_the_same_in_all_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]["spark"]
    (pinned,) = re.findall(r'"pyspark\[.*\]==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    major, minor = pinned.split(".")[:2]
    assert f"pyspark>=4.0,<{major}.{int(minor) + 1}" in extras, "up to the version that the tests run"
    version = ".".join(pinned.split(".")[:2])
    said = {
        path.name: set(re.findall(r"PySpark (\d+\.\d+)", path.read_text()))
        for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    }
    assert said["spark.md"] == {version}
    assert set.union(*said.values()) == {version}
