"""Compile the pure packages with mypyc, or leave them interpreted.

The same sources run both ways. ``PENSTOCK_PURE=1`` asks for the interpreted form; without a working C compiler the
installation succeeds and is interpreted too. It is all or nothing: a half-compiled broker would import modules of
two builds. ``PENSTOCK_RELEASE=1`` is for wheels: a compiler that fails is an error, and symbols are stripped.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, ExecError, PlatformError

PURE_PACKAGES = ("access", "content", "flow", "core", "wire", "protocols", "persistence", "management", "driver")
BUILDING = {"bdist_wheel", "build", "build_ext", "install", "editable_wheel", "develop"}
# Only the compiled modules are checked here; `make lint` checks everything, and more strictly.
MYPY_OPTIONS = [
    "--config-file=",
    "--follow-imports=silent",
    "--ignore-missing-imports",
    "--cache-dir=.mypy_cache/compile",
]

NO_WARNINGS = [] if sys.platform == "win32" else ["-Wno-all", "-Wno-sign-compare"]
"""Python's own flags ask for warnings; looking for them in generated code takes three quarters of the compile time."""
GENERATED = "build"
"""Where mypyc writes C."""
BUNDLES = 8
"""Files of C that can be compiled at the same time; each reads all declarations, which takes half a second."""
BUNDLE = """\
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
"""
"""How each begins. Nobody outside may call what follows: calls that could be redirected are slower, and not inlined."""
RELEASE = os.environ.get("PENSTOCK_RELEASE") == "1"
"""Whether this build is for a wheel that goes to other machines."""
STRIP = {"linux": ["-Wl,--strip-all"], "darwin": ["-Wl,-x"]}
"""What the linker is told to leave symbols out, by platform; debugging information is never made."""
NO_TABLES = [] if sys.platform == "win32" else ["-fno-asynchronous-unwind-tables"]
"""Tables for unwinding the stack serve C++ and debuggers only, and are half a megabyte of a wheel."""


def pure_modules() -> list[str]:
    """Return the paths of all modules of the pure packages; package markers hold nothing to compile."""
    found = (path for name in PURE_PACKAGES for path in Path("src/penstock", name).rglob("*.py"))
    return sorted(str(path) for path in found if path.name != "__init__.py")


def write(path: Path, text: str) -> None:
    """Write a file unless it has this text: what is newer than its object is compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def bundles(sources: list[str]) -> list[str]:
    """Gather generated C into a few files of about the same length that include it; return their paths."""
    parts: list[list[Path]] = [[] for _ in range(BUNDLES)]
    lengths = [0] * BUNDLES
    for source in sorted(map(Path, sources), key=lambda path: (-path.stat().st_size, path)):
        shortest = lengths.index(min(lengths))
        parts[shortest].append(source)
        lengths[shortest] += source.stat().st_size
    found = []
    for number, part in enumerate(parts):
        bundle = Path(GENERATED, f"bundle_{number}.c")
        included = "".join(f'#include "{source.relative_to(GENERATED).as_posix()}"\n' for source in part)
        write(bundle, BUNDLE + included)
        found.append(str(bundle))
    return found


def extensions() -> list[Extension]:
    """Return the compiled modules as one group, so that calls between them are direct C calls."""
    if os.environ.get("PENSTOCK_PURE") == "1" or BUILDING.isdisjoint(sys.argv):
        return []  # asked for, or only the metadata are wanted
    from mypyc.build import mypycify

    found = mypycify(
        [*MYPY_OPTIONS, *pure_modules()],
        opt_level="3",
        debug_level="0",
        multi_file=True,
        target_dir=GENERATED,
        group_name="penstock",
    )
    for extension in found:
        extension.extra_compile_args = [*extension.extra_compile_args, *NO_WARNINGS]  # They share one list.
        if RELEASE:
            extension.extra_compile_args = [*extension.extra_compile_args, *NO_TABLES]
            extension.extra_link_args = [*extension.extra_link_args, *STRIP.get(sys.platform, [])]
    library = found[0]
    library.depends += library.sources
    library.sources = bundles(library.sources)
    return found


class CompileOrDoWithout(build_ext):
    """Build every extension, with all cores, or remove all of them and go on."""

    def run(self) -> None:
        """Compile; when the compiler fails, say so and install the interpreted form."""
        try:
            super().run()
        except (BaseError, CCompilerError, ExecError, PlatformError, OSError) as error:
            if RELEASE:
                raise
            print(error, file=sys.stderr)
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []
            print("penstock: the C compiler is missing or failed; Penstock is installed interpreted.", file=sys.stderr)

    def build_extensions(self) -> None:
        """Compile several files, and build several extensions, at the same time."""
        self.parallel = self.parallel or os.cpu_count() or 1
        compile_all = self.compiler.compile

        def compile_beside(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(self.parallel) as beside:
                made = beside.map(lambda source: compile_all([source], **options), sources)
                return [path for paths in made for path in paths]

        self.compiler.compile = compile_beside
        super().build_extensions()


setup(ext_modules=extensions(), cmdclass={"build_ext": CompileOrDoWithout})
