"""Compile the pure packages with mypyc, or leave them interpreted.

The same sources run both ways. ``PENSTOCK_PURE=1`` asks for the interpreted form; without a working C compiler the
installation succeeds and is interpreted too. It is all or nothing: a half-compiled broker would import modules of
two builds. ``PENSTOCK_RELEASE=1`` is for wheels: a compiler that fails is an error, and symbols are stripped.
"""

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError, ExecError, PlatformError

PURE_PACKAGES = (
    *("access", "content", "flow", "core", "wire", "connections", "protocols", "persistence", "describe", "ranges"),
    *("management", "operations", "driver", "client/engine"),
)
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
GROUP = "penstock"
"""How the library and what mypyc generates are called."""
GENERATED = "build"
"""Where mypyc writes C."""
OF_MODULE = "__native_"
"""How the names of its files begin, but for those of mypyc's own library."""
BUNDLES = {"hot": 2, "cold": 6}
"""Files of C that can be compiled at the same time; each reads all declarations, which takes half a second."""
SECOND = ("amqp10", "client___engine")
"""Parts of the names of the modules for speed that are in the second file: AMQP 1.0 and the client."""
HOT = (
    "client/engine/amqp",
    "client/engine/messages",
    "client/engine/outcomes",
    "client/engine/publisher",
    "client/engine/receiver",
    "client/engine/relay",
    "client/engine/waits",
    "core/broker",
    "core/consume/consumer.",
    "core/consume/rotation",
    "core/consume/session",
    "core/consume/unsettled",
    "core/dispatcher",
    "core/journal/",
    "core/large_content",
    "core/message",
    "core/publish/credit_line",
    "core/publish/held",
    "core/publish/hold_room",
    "core/publish/outbox",
    "core/publish/producer",
    "core/publish/sender_credit",
    "core/publish/waiting_publisher",
    "core/queue/membership",
    "core/queue/queue.",
    "core/queue/queue_room",
    "core/queue/storage",
    "driver/driver",
    "driver/entry_times",
    "driver/scheduler",
    "flow/confirms",
    "flow/timers",
    "flow/turns",
    "persistence/rows",
    "persistence/settlements",
    "protocols/amqp091/content_frames",
    "protocols/amqp091/delivery_frames",
    "protocols/amqp091/frame_reader",
    "protocols/amqp091/large_output",
    "protocols/amqp091/message_format",
    "protocols/amqp10/delivery_",
    "protocols/amqp10/engine",
    "protocols/amqp10/incoming_link",
    "protocols/amqp10/message_format",
    "protocols/amqp10/session",
    "protocols/amqp10/target",
    "connections/connection.",
    "wire/amqp091/codec",
    "wire/amqp091/content_header",
    "wire/amqp091/fields",
    "wire/amqp10/field_cursor",
    "wire/amqp10/frames",
    "wire/amqp10/neutral",
    "wire/amqp10/sections",
    "wire/amqp10/transfer",
    "wire/amqp10/value_walk",
)
"""How the paths of modules begin that are compiled for speed; all others are compiled for size.

Each of them has 0.5 % of the instructions of a step of `make guard`, or is called for every message.
"""
FOR_SIZE = ["-Os"]
"""What replaces -O3."""
SECTIONS = (["-ffunction-sections"], ["-Wl,--gc-sections", "-Wl,--sort-section=name"])
"""Options of compiler and linker that leave out functions that nothing calls, and put alike ones beside each other."""
LEAN = (
    ["-fno-plt", "-fno-ident"],
    ["-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--build-id=none", "-Wl,--hash-style=gnu"],
)
"""The same for a module that does nothing but ask the library: it needs no start-up code and no pages of its own."""
DOOR = """\
#include <Python.h>

PyMODINIT_FUNC PyInit_{last}(void)
{{
    PyObject *(*make)(void) = PyCapsule_Import("{library}.init_{name}", 0);
    return make ? make() : NULL;
}}
"""
"""Such a module. mypyc's own is three times as long, for libraries that need each other."""
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
#undef PyDoc_STR
#define PyDoc_STR(text) NULL
"""
"""How each begins.

Nobody outside may call what follows: calls that could be redirected are slower, and not inlined. Signatures as text are
left out: nobody asks for them, and the sources are in the wheel.
"""
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


def bundles(sources: list[Path], name: str) -> list[str]:
    """Gather generated C into a few files that include it; return their paths.

    They have about the same length. Modules for speed are gathered by protocol instead: the compiler inlines within a
    file, so what a step costs would follow from the lengths of all modules.
    """
    parts: list[list[Path]] = [[] for _ in range(BUNDLES[name])]
    lengths = [0] * len(parts)
    for source in sorted(sources, key=lambda path: (-path.stat().st_size, path)):
        shortest = lengths.index(min(lengths))
        if name == "hot":
            shortest = int(any(each in source.name for each in SECOND))
        parts[shortest].append(source)
        lengths[shortest] += source.stat().st_size
    found = []
    for number, part in enumerate(parts):
        bundle = Path(GENERATED, f"{name}_{number}.c")
        included = "".join(f'#include "{source.relative_to(GENERATED).as_posix()}"\n' for source in part)
        write(bundle, BUNDLE + included)
        found.append(str(bundle))
    return found


def write_doors(doors: list[Extension]) -> None:
    """Write the modules that lead to the library."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return  # mypyc's say that they need no lock.
    for door in doors:
        last, name = door.name.rpartition(".")[2], door.name.replace(".", "___")
        write(Path(door.sources[0]), DOOR.format(last=last, name=name, library=f"{GROUP}__mypyc"))


def is_hot(source: Path) -> bool:
    """Tell whether messages pass through a file of generated C. mypyc's own library is hot."""
    if not source.stem.startswith(OF_MODULE):
        return True
    module = source.stem.removeprefix(OF_MODULE).replace("___", "/") + ".py"
    return module.startswith(tuple(f"{GROUP}/{each}" for each in HOT))


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
        group_name=GROUP,
    )
    for extension in found:
        extension.extra_compile_args = [*extension.extra_compile_args, *NO_WARNINGS]  # They share one list.
        if RELEASE:
            extension.extra_compile_args = [*extension.extra_compile_args, *NO_TABLES]
            extension.extra_link_args = [*extension.extra_link_args, *STRIP.get(sys.platform, [])]
    library, *doors = found
    write_doors(doors)
    library.depends += library.sources
    sources = sorted(map(Path, library.sources))
    library.sources = [
        *bundles([each for each in sources if is_hot(each)], "hot"),
        *bundles([each for each in sources if not is_hot(each)], "cold"),
    ]
    return found


def change_mark() -> str:
    """Return the time and the id of the last change, by which builds of one version are told apart; "" if unknown."""
    given = os.environ.get("PENSTOCK_CHANGE")
    if given is not None:
        return given.strip()
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        utc = {**os.environ, "TZ": "UTC"}
        done = subprocess.run(["git", *words], cwd=here, env=utc, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here:
            return ""  # Sources without a history, inside of another repository.
        with_changes = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
        return (
            git("log", "-1", "--date=format-local:%Y-%m-%d %H:%M UTC", "--format=%cd %h", "--abbrev=12") + with_changes
        )
    except (OSError, subprocess.CalledProcessError):
        return ""


class MarkedBuild(build_py):
    """Build of the modules, with a file that names the last change; `penstock.build()` reads it."""

    def run(self) -> None:
        """Copy the modules, and write the mark."""
        super().run()
        mark = change_mark()
        path = Path(self.build_lib, "penstock", "build.txt")
        if mark and not self.editable_mode:
            path.write_text(f"{mark}\n")
        else:
            path.unlink(missing_ok=True)


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

    def options_for(self, source: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the compiler's options for one file: most are compiled for size."""
        if Path(source).name.startswith("hot_") or self.compiler.compiler_type != "unix":
            return options
        return {**options, "extra_postargs": [*(options.get("extra_postargs") or []), *FOR_SIZE]}

    def accepts(self, compiled: list[str], linked: list[str]) -> bool:
        """Tell whether compiler and linker know these options."""
        with TemporaryDirectory() as folder:
            source = Path(folder, "nothing.c")
            source.write_text("int nothing;\n")
            try:
                made = self.compiler.compile([str(source)], output_dir=folder, extra_postargs=compiled)
                self.compiler.link_shared_object(made, str(Path(folder, "nothing.so")), extra_postargs=linked)
            except CCompilerError:
                return False
        return True

    def make_small(self) -> None:
        """Add options that make no code slower where they are known."""
        for (compiled, linked), extensions in ((SECTIONS, self.extensions[:1]), (LEAN, self.extensions[1:])):
            if sys.platform == "linux" and self.accepts(compiled, linked):
                for extension in extensions:
                    extension.extra_compile_args = [*extension.extra_compile_args, *compiled]
                    extension.extra_link_args = [*extension.extra_link_args, *linked]

    def build_extensions(self) -> None:
        """Compile several files, and build several extensions, at the same time."""
        self.parallel = self.parallel or os.cpu_count() or 1
        self.make_small()
        compile_all = self.compiler.compile

        def compile_beside(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(self.parallel) as beside:
                made = beside.map(lambda source: compile_all([source], **self.options_for(source, options)), sources)
                return [path for paths in made for path in paths]

        self.compiler.compile = compile_beside
        super().build_extensions()


setup(ext_modules=extensions(), cmdclass={"build_ext": CompileOrDoWithout, "build_py": MarkedBuild})
