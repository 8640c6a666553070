"""`make dist` and the wheels of a release: contents, sizes, the platforms that are built, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import penstock
from scripts import dist

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
TRACKED = ("src", "docs", "examples", "deploy", "requirements", "scripts")
BUILD = """
from setuptools import build_meta
print(build_meta.build_sdist({folder!r}))
print(build_meta.build_wheel({folder!r}))
"""
MOST_DEPENDENCIES = 9


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source package and the pure wheel of this checkout."""
    tree, output = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("packages")
    listed = subprocess.run(
        ["find", *(name for name in TRACKED if (ROOT / name).exists()), "-type", "f"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    made = ("__pycache__", ".egg-info", ".so")
    names = [name for name in listed if name and not any(part in name for part in made)]
    names += [path.name for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")]
    for name in names:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(ROOT / name)
    environment = {**os.environ, "PENSTOCK_PURE": "1"}
    code = BUILD.format(folder=str(output))
    subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, check=True, capture_output=True)
    return next(output.glob("*.tar.gz")), next(output.glob("*.whl"))


def sources() -> set[str]:
    """Every file of the packages, which must all be installed."""
    found = (path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so"))
    return {str(path.relative_to(ROOT / "src")) for path in found if ".egg-info" not in str(path)}


def test_pure_wheel_has_every_file_of_the_packages_and_no_other(packages: tuple[Path, Path]) -> None:
    _, wheel = packages
    names = {name for name in dist.contents(wheel) if ".dist-info/" not in name}
    assert names - {"penstock/build.txt"} == sources(), "the build adds its last change, if there is a history"
    assert wheel.name == f"penstock-{penstock.__version__}-py3-none-any.whl"


def test_pure_wheel_may_go_out(packages: tuple[Path, Path]) -> None:
    _, wheel = packages
    assert dist.check_wheel(wheel).startswith(wheel.name)


def test_wheel_has_the_licence_the_page_and_the_command(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[1]) as archive:
        folder = f"penstock-{penstock.__version__}.dist-info"
        metadata = archive.read(f"{folder}/METADATA").decode()
        assert "penstock = penstock.cli:main" in archive.read(f"{folder}/entry_points.txt").decode()
        assert b"Apache License" in archive.read(f"{folder}/licenses/LICENSE")
    assert (ROOT / "README.md").read_text().strip() in metadata
    assert "Description-Content-Type: text/markdown" in metadata


def test_source_package_has_sources_documents_and_build_files(packages: tuple[Path, Path]) -> None:
    source, _ = packages
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources()} <= names
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= names
    wanted = {"setup.py", "pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "scripts/first_message.py"}
    assert wanted <= names
    assert [name for name in names if name.startswith(("tests", "bench", "compat", "demo"))] == []


def wheel_of(folder: Path, files: dict[str, bytes]) -> Path:
    """Make a wheel that holds these files."""
    path = folder / "penstock-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, octets in files.items():
            archive.writestr(name, octets)
    return path


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"penstock/flow/gate.c": b""}, "holds what it must not: penstock/flow/gate.c"),
        ({"tests/test_gate.py": b""}, "holds what it must not: tests/test_gate.py"),
        (
            {"penstock/gate.so": b"\x7fELF\0.symtab\0.strtab\0"},
            "has symbols that were not stripped, in penstock/gate.so",
        ),
        ({"penstock/large": bytes(dist.MOST_OCTETS["interpreted"])}, "octets; the limit is 5,000,000"),
    ],
)
def test_wheel_that_may_not_go_out_is_refused(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    with pytest.raises(dist.DistError) as raised:
        dist.check_wheel(wheel_of(tmp_path, files))
    assert said in str(raised.value)


def test_compiled_wheel_has_its_own_limit(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {"penstock/large": bytes(dist.MOST_OCTETS["compiled"])})
    compiled = wheel.rename(tmp_path / "penstock-1-cp311-cp311-linux_x86_64.whl")
    with pytest.raises(dist.DistError, match="octets; the limit is 7,000,000"):
        dist.check_wheel(compiled)


def test_module_of_compiled_code_belongs_into_a_wheel(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {"penstock__mypyc.cpython-311-x86_64-linux-gnu.so": b"\x7fELF\0.shstrtab\0"})
    assert dist.check_wheel(wheel).endswith("1 files, 15 octets unpacked")


def test_sizes_of_the_page_equal_the_packages(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "inside" / "packages.md").read_text()
    source = tmp_path / "penstock-1.tar.gz"
    source.write_bytes(bytes(1_234))
    wheel = wheel_of(tmp_path, {"penstock/a": bytes(2_000_000), "penstock/b": b""})
    found = dist.with_sizes(page, [source, wheel])
    assert "| source package | 1,234 | | |" in found
    assert f"| pure wheel | {wheel.stat().st_size:,} | 2 | 2.0 MB |" in found
    (kept,) = [line for line in page.splitlines() if line.startswith("| compiled wheel")]
    assert kept in found, "it was not built"
    compiled = wheel.rename(tmp_path / "penstock-1-cp311-cp311-linux_x86_64.whl")
    row = dist.size_row(compiled)
    assert row.startswith("| compiled wheel (CPython 3.")
    again = dist.with_sizes(found, [compiled])
    assert [line for line in again.splitlines() if line.startswith("| compiled wheel")] == [row]
    assert again.count("\n") == page.count("\n")


def test_page_without_a_table_of_sizes_is_refused() -> None:
    with pytest.raises(dist.DistError, match="has no table of sizes"):
        dist.with_sizes("# Packages\n", [])


def test_command_that_fails_is_reported_with_its_last_lines() -> None:
    with pytest.raises(dist.DistError, match=r"(?s)no such form.*exit code 3: "):
        dist.run(sys.executable, "-c", "print('no such form'); raise SystemExit(3)")


def test_wheels_are_built_for_every_python_that_the_classifiers_name() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = {each.removeprefix(prefix) for each in PROJECT["project"]["classifiers"] if each.startswith(prefix)}
    assert set(PROJECT["tool"]["cibuildwheel"]["build"].split()) == {f"cp3{minor}-*" for minor in named}
    assert f">=3.{min(map(int, named))}" == PROJECT["project"]["requires-python"]


def test_cibuildwheel_stops_at_a_failed_compiler_and_tries_each_wheel() -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    for each in (settings, settings["macos"]):
        assert each["environment"]["PENSTOCK_RELEASE"] == "1"
    script = settings["test-command"].split("/")[-1].split()[0]
    assert (ROOT / "scripts" / script).exists()


def test_broker_has_fewer_than_ten_dependencies_each_with_a_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text().partition("\ndependencies = [\n")[2].partition("\n]")[0].splitlines()
    assert len(lines) == len(PROJECT["project"]["dependencies"]) <= MOST_DEPENDENCIES
    assert [line for line in lines if "  # " not in line] == []
    page = (ROOT / "docs" / "inside" / "packages.md").read_text()
    names = [line.strip(' "').partition(">")[0].partition("=")[0] for line in lines]
    assert [name for name in names if f"`{name}`" not in page] == []
