"""The build (setup.py): what it does when there is no compiler that works, and how wheels of a release differ.

And what is installed for the demo (scripts/prepare.py).
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from setuptools import Distribution, Extension
from setuptools.errors import CCompilerError, CompileError

import penstock

ROOT = Path(__file__).resolve().parents[2]


def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str) -> dict[str, Any]:
    """Return the names of setup.py, which prints its version instead of building, and work in an empty folder."""
    monkeypatch.setenv("PENSTOCK_RELEASE", release)
    monkeypatch.setattr(sys, "argv", ["setup.py", "--version"])
    monkeypatch.chdir(ROOT)
    names = runpy.run_path("setup.py")
    monkeypatch.chdir(tmp_path)
    return names


def build_what_cannot_be_built(names: dict[str, Any]) -> Any:
    """Build an extension whose source the compiler refuses."""
    Path("broken.c").write_text("this is no C")
    distribution = Distribution({"name": "broken", "ext_modules": [Extension("broken", ["broken.c"])]})
    command = names["CompileOrDoWithout"](distribution)
    command.ensure_finalized()
    command.run()
    return command


def test_installation_without_a_compiler_that_works_is_interpreted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = loaded(monkeypatch, tmp_path, "")
    assert build_what_cannot_be_built(names).extensions == []
    assert "Penstock is installed interpreted." in capfd.readouterr().err


def test_release_fails_with_its_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = loaded(monkeypatch, tmp_path, "1")
    with pytest.raises((CCompilerError, CompileError)):
        build_what_cannot_be_built(names)


def test_release_is_stripped_on_every_platform_that_has_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = loaded(monkeypatch, tmp_path, "1")
    assert names["RELEASE"] is True
    assert names["STRIP"].keys() == {"linux", "darwin"}
    assert loaded(monkeypatch, tmp_path, "")["RELEASE"] is False


@pytest.mark.parametrize("given", ["2026-01-31 10:00 UTC 0123456789ab", ""])
def test_build_has_the_last_change_beside_its_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str
) -> None:
    monkeypatch.setenv("PENSTOCK_CHANGE", given)
    names = loaded(monkeypatch, tmp_path, "")
    Path("penstock").mkdir()
    Path("penstock", "__init__.py").touch()
    command = names["MarkedBuild"](Distribution({"packages": ["penstock"], "script_name": "setup.py"}))
    command.build_lib = str(tmp_path / "built")
    command.ensure_finalized()
    command.run()
    monkeypatch.setattr(penstock, "__file__", str(tmp_path / "built" / "penstock" / "__init__.py"))
    form = "compiled" if penstock.compiled() else "interpreted"
    assert penstock.build.__wrapped__() == (f"{form}, {given}" if given else form)


def test_last_change_of_a_checkout_is_that_of_its_history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PENSTOCK_CHANGE", raising=False)
    shutil.copy(ROOT / "setup.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["setup.py", "--version"])

    def git(*words: str) -> None:
        user = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(["git", *user, *words], check=True, capture_output=True)

    change_mark = runpy.run_path("setup.py")["change_mark"]
    assert change_mark() == "", "there is no history"
    git("init")
    git("add", "setup.py")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-31T12:00:00+0200")
    git("commit", "-m", "first")
    first = change_mark()
    assert re.fullmatch(r"2026-01-31 10:00 UTC [0-9a-f]{12}", first)
    with Path("setup.py").open("a") as file:
        file.write("# changed")
    assert change_mark() == f"{first} with changes"


def test_modules_that_are_compiled_for_speed_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hot = loaded(monkeypatch, tmp_path, "")["HOT"]
    modules = [str(path.relative_to(ROOT / "src" / "penstock")) for path in (ROOT / "src" / "penstock").rglob("*.py")]
    assert [each for each in hot if not any(module.startswith(each) for module in modules)] == []


def test_option_that_the_compiler_does_not_know_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = loaded(monkeypatch, tmp_path, "1")
    Path("library.c").write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_library(void) { return NULL; }\n")
    extensions = [Extension("library", ["library.c"], extra_compile_args=["-g0"])]
    command = names["CompileOrDoWithout"](Distribution({"name": "library", "ext_modules": extensions}))
    command.ensure_finalized()
    command.run()
    assert command.accepts([], [])
    assert not command.accepts(["-fno-such-option"], [])
    assert not command.accepts([], ["-Wl,--no-such-option"])


def test_demo_installs_nothing_in_a_clone_that_is_set_up(tmp_path: Path) -> None:
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    names = runpy.run_path(str(tmp_path / "scripts" / "prepare.py"))
    fingerprint, locks = names["fingerprint"], names["LOCKS"]
    marks = {"environment": fingerprint(()), "packages": fingerprint(locks), "build": names["build_mark"](locks)}
    (tmp_path / ".venv").mkdir()
    for name, mark in marks.items():
        (tmp_path / ".venv" / f"penstock-{name}.stamp").write_text(mark)
    command = [sys.executable, "scripts/prepare.py", "--demo"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
