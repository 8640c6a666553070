"""The build (setup.py): what it does when there is no compiler that works, and how wheels of a release differ."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from setuptools import Distribution, Extension
from setuptools.errors import CCompilerError, CompileError

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


IMPORT = """\
    cpy_r_r26 = (void *)&CPyModule_penstock___flow___gate;
    cpy_r_r27 = (void *)&CPyImportState_penstock___flow___gate;
    cpy_r_r28 = CPyModuleLockAPI_penstock;
    cpy_r_r29 = CPyImport_IsInitialized(cpy_r_r27);
    if (!cpy_r_r29) goto CPyL11;
    cpy_r_r30 = PyImport_GetModuleDict();
    cpy_r_r32 = CPyDict_GetItem(cpy_r_r30, cpy_r_r31);
    if (unlikely(cpy_r_r32 == NULL)) {
        CPy_AddTraceback("src/penstock/core/vhost.py", "<module>", 22, CPyStatic_vhost___globals);
        goto CPyL324;
    }
    cpy_r_r33 = cpy_r_r32;
    goto CPyL15;
CPyL11: ;
    cpy_r_r34 = CPyInitOnly_penstock___flow___gate;
    cpy_r_r44 = CPyImport_ImportNative(cpy_r_r43, cpy_r_r34, cpy_r_r35, cpy_r_r36);
    if (unlikely(cpy_r_r44 == NULL)) {
        CPy_AddTraceback("src/penstock/core/vhost.py", "<module>", 22, CPyStatic_vhost___globals);
        goto CPyL324;
    }
    cpy_r_r33 = cpy_r_r44;
CPyL15: ;
    cpy_r_r45 = CPyStatics[8742];
"""
SHORT_IMPORT = """\
    cpy_r_r33 = import_penstock___flow___gate();
    if (unlikely(cpy_r_r33 == NULL)) {
        add_place_7(22);
        goto CPyL324;
    }
    cpy_r_r45 = CPyStatics[8742];
"""


def short(names: dict[str, Any], name: str, text: str) -> str:
    """Return a file of generated C as the compiler gets it."""
    path = Path(name)
    path.write_text(text)
    found: str = names["shortened"](path, 7)
    return found


def test_import_of_a_module_of_the_library_is_one_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = short(loaded(monkeypatch, tmp_path, ""), "__native_penstock___core___vhost.c", IMPORT)
    assert SHORT_IMPORT in found
    assert 'CPy_AddTraceback("src/penstock/core/vhost.py", functions +' in found
    assert 'return import_native("penstock.core.vhost", CPyInitOnly_penstock___core___vhost,' in found


def test_place_is_one_number_of_function_and_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    call = 'CPy_AddTraceback("src/penstock/flow/gate.py", "{}", {}, CPyStatic_gate___globals);\n'
    text = call.format("open", 16383) + call.format("shut", 2) + call.format("shut", -1)
    found = short(loaded(monkeypatch, tmp_path, ""), "__native_penstock___flow___gate.c", text)
    assert 'functions[] = "open\\0shut"' in found
    assert f"add_place_7(16383);\nadd_place_7({5 << 14 | 2});\n{call.format('shut', -1)}" in found


def test_other_generated_code_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert short(loaded(monkeypatch, tmp_path, ""), "list_ops.c", IMPORT) == IMPORT


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
