"""Compile the pure packages with mypyc, or leave them interpreted.

The same sources run both ways. ``PENSTOCK_PURE=1`` asks for the interpreted form; without a working C compiler the
installation succeeds and is interpreted too. It is all or nothing: a half-compiled broker would import modules of
two builds.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, ExecError, PlatformError

PURE_PACKAGES = ("content", "flow", "core", "wire", "protocols", "persistence", "management", "driver")
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


def pure_modules() -> list[str]:
    """Return the paths of all modules of the pure packages; package markers hold nothing to compile."""
    found = (path for name in PURE_PACKAGES for path in Path("src/penstock", name).rglob("*.py"))
    return sorted(str(path) for path in found if path.name != "__init__.py")


def extensions() -> list[Extension]:
    """Return the compiled modules as one group, so that calls between them are direct C calls."""
    if os.environ.get("PENSTOCK_PURE") == "1" or BUILDING.isdisjoint(sys.argv):
        return []  # asked for, or only the metadata are wanted
    from mypyc.build import mypycify

    found = mypycify([*MYPY_OPTIONS, *pure_modules()], opt_level="3", debug_level="0", group_name="penstock")
    for extension in found:
        extension.extra_compile_args += NO_WARNINGS
    return found


class CompileOrDoWithout(build_ext):
    """Build every extension, or remove all of them and go on."""

    def run(self) -> None:
        """Compile; when the compiler fails, say so and install the interpreted form."""
        try:
            super().run()
        except (BaseError, CCompilerError, ExecError, PlatformError, OSError) as error:
            print(error, file=sys.stderr)
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []
            print("penstock: the C compiler is missing or failed; Penstock is installed interpreted.", file=sys.stderr)


setup(ext_modules=extensions(), cmdclass={"build_ext": CompileOrDoWithout})
