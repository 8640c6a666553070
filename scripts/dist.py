"""Build what this platform can into `dist/`, and try each wheel in a new environment.

The source package is built first, and the wheels are built from it, so that it is known to be complete: one compiled
for this Python, repaired by auditwheel where that is possible, and one of Python alone. The tools come from
requirements/build.lock and requirements/dist.lock, in an environment of their own.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
LOCKS = (ROOT / "requirements" / "build.lock", ROOT / "requirements" / "dist.lock")
TRIAL = ROOT / "scripts" / "first_message.py"
PAGE = ROOT / "docs" / "inside" / "packages.md"
SIZES = re.compile(r"(?<=<!-- sizes: written by make dist -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)
"""The table of sizes in that page."""
MOST_OCTETS = {"interpreted": 5_000_000, "compiled": 7_000_000}
"""Most octets that a wheel may have, by its form; docs/inside/packages.md says what is in it."""
SHOWN = 20
"""Lines of a command that failed that are shown."""


class DistError(Exception):
    """A step failed; the text says which and why."""


def say(sentence: str) -> None:
    """Print one sentence of progress at once."""
    print(sentence, flush=True)


def run(*words: str, cwd: Path = ROOT, settings: Mapping[str, str] | None = None) -> str:
    """Run a program and return what it prints. Raises DistError with its last lines if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PENSTOCK_PURE")}
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**environment, **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-SHOWN:])
        raise DistError(f"{last}\nThis command failed with exit code {done.returncode}: {' '.join(words)}")
    return done.stdout


@contextmanager
def timed(sentence: str) -> Iterator[None]:
    """Say what begins, and how long it took."""
    say(sentence)
    start = time.monotonic()
    yield
    say(f"  done in {time.monotonic() - start:.0f} s.")


def new_environment(folder: Path) -> Path:
    """Make a virtual environment; return its folder of programs."""
    run(sys.executable, "-m", "venv", str(folder))
    return folder / "bin"


def pip(programs: Path, *words: str) -> str:
    """Run an environment's pip."""
    return run(str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *words)


def build_source(programs: Path, source: Path, output: Path) -> Path:
    """Build the source package of a folder; return its path."""
    run(str(programs / "python"), "-m", "build", "--sdist", "--no-isolation", "--outdir", str(output), str(source))
    (made,) = output.glob("*.tar.gz")
    return made


def build_wheel(programs: Path, source: Path, output: Path, settings: Mapping[str, str]) -> Path:
    """Build a wheel of an unpacked source package; return its path."""
    output.mkdir()
    words = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(output), str(source))
    run(str(programs / "python"), *words, settings=settings)
    (made,) = output.glob("*.whl")
    return made


def unpack(source: Path, folder: Path) -> Path:
    """Unpack a source package; return the one folder in it."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (made,) = folder.iterdir()
    return made


def repair(programs: Path, wheel: Path, output: Path) -> Path:
    """Let auditwheel say which glibc a wheel needs, in its name; return it as it is where auditwheel cannot."""
    tool = programs / "auditwheel"
    if not tool.exists():
        say("  There is no auditwheel for this platform: the wheel keeps the name of this platform.")
        return wheel
    settings = {"PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    try:
        run(str(tool), "repair", "-z", "9", "--wheel-dir", str(output), str(wheel), settings=settings)
    except DistError as error:
        say(f"  auditwheel cannot repair the wheel, which keeps the name of this platform: {error}")
        return wheel
    (made,) = output.glob("*.whl")
    return made


def contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel with their octets."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.file_size for each in archive.infolist() if not each.is_dir()}


def unwanted(names: list[str]) -> list[str]:
    """Return what does not belong into a wheel: generated C, caches, tests and folders of the checkout."""
    packages = ("penstock/", "penstock_simulation/", "pyspark_amqp/", "pyspark_penstock/", "penstock-")
    modules = "__mypyc."
    return [
        name
        for name in names
        if name.endswith((".c", ".h", ".o", ".pyc")) or not (name.startswith(packages) or modules in name)
    ]


def has_symbols(wheel: Path) -> list[str]:
    """Return the extension modules of a wheel that were not stripped: an ELF file names its symbol table `.symtab`."""
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith(".so") and b"\0.symtab\0" in archive.read(name)]


def check_wheel(wheel: Path) -> str:
    """Return a line on a wheel's size and contents. Raises DistError for one that may not go out."""
    octets, files = wheel.stat().st_size, contents(wheel)
    most = MOST_OCTETS["interpreted" if wheel.name.endswith("-none-any.whl") else "compiled"]
    if octets >= most:
        raise DistError(f"{wheel.name} has {octets:,} octets; the limit is {most:,}")
    if strange := unwanted(list(files)):
        raise DistError(f"{wheel.name} holds what it must not: {', '.join(strange[:5])}")
    if left := has_symbols(wheel):
        raise DistError(f"{wheel.name} has symbols that were not stripped, in {left[0]}")
    return f"{wheel.name}: {octets:,} octets, {len(files)} files, {sum(files.values()):,} octets unpacked"


def size_row(package: Path) -> str:
    """Return the row of a package in the table of sizes."""
    octets = f"{package.stat().st_size:,}"
    if package.suffix != ".whl":
        return f"| source package | {octets} | | |"
    files = contents(package)
    pure = package.name.endswith("-none-any.whl")
    version = ".".join(sys.version.split()[0].split(".")[:2])
    name = "pure wheel" if pure else f"compiled wheel (CPython {version}, {platform.machine()})"
    return f"| {name} | {octets} | {len(files):,} | {sum(files.values()) / 1e6:.1f} MB |"


def with_sizes(page: str, packages: Sequence[Path]) -> str:
    """Return the page with the sizes of packages; a row of a package that was not built stays as it is."""
    found = SIZES.search(page)
    if found is None:
        raise DistError(
            f"{PAGE.name} has no table of sizes: put its lines `<!-- sizes ... -->` and `<!-- end -->` back"
        )
    head, line, *rows = found[0].splitlines()
    by_kind = {row.split(" (")[0].split(" |")[0]: row for row in (*rows, *map(size_row, packages))}
    return SIZES.sub(lambda _: "\n".join((head, line, *by_kind.values())), page)


def try_wheel(wheel: Path, form: str) -> None:
    """Install a wheel into a new environment, and let it take its first message there."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        programs = new_environment(Path(folder, "environment"))
        pip(programs, "--only-binary=:all:", str(wheel), "pika")
        say(f"  installed in {time.monotonic() - start:.0f} s, with {dependencies(programs)} packages beside it.")
        said = run(str(programs / "python"), str(TRIAL), "--form", form, cwd=Path(folder))
        say("".join(f"  {line}\n" for line in said.splitlines()).rstrip())


def dependencies(programs: Path) -> int:
    """Return how many packages Penstock brought: all but itself, pip, setuptools and the client of the trial."""
    listed = run(str(programs / "python"), "-m", "pip", "list", "--format=freeze").split()
    return len([each for each in listed if each.partition("==")[0] not in ("penstock", "pip", "setuptools", "pika")])


def keep(path: Path) -> Path:
    """Copy a finished package into `dist/`; return it there."""
    DIST.mkdir(exist_ok=True)
    return Path(shutil.copy2(path, DIST))


def build_all(pure_only: bool) -> list[Path]:
    """Build and try the packages; return them."""
    with tempfile.TemporaryDirectory(prefix="penstock-dist-") as folder:
        scratch = Path(folder)
        with timed("Installing the tools from the lock."):
            tools = new_environment(scratch / "tools")
            for lock in LOCKS:
                pip(tools, "--require-hashes", "--no-build-isolation", "-r", str(lock))
        with timed("Building the source package."):
            source = build_source(tools, ROOT, scratch / "source")
        wheels = []
        with timed("Building the pure wheel from it."):
            tree = unpack(source, scratch / "pure-tree")
            pure = build_wheel(tools, tree, scratch / "pure", {"PENSTOCK_PURE": "1"})
            wheels.append((pure, "interpreted"))
        if not pure_only:
            with timed(f"Building the wheel compiled for {sysconfig.get_platform()} from it; this takes minutes."):
                tree = unpack(source, scratch / "compiled-tree")
                made = build_wheel(tools, tree, scratch / "compiled", {"PENSTOCK_RELEASE": "1"})
                wheels.append((repair(tools, made, scratch / "repaired"), "compiled"))
        files = [keep(path) for path in (source, *(wheel for wheel, _ in wheels))]
        for wheel, form in wheels:
            with timed(f"Trying {check_wheel(wheel)}."):
                try_wheel(wheel, form)
        run(str(tools / "twine"), "check", "--strict", *map(str, files))
        say("twine check passed.")
        return files


def main() -> int:
    """Build what this platform can; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pure", action="store_true", help="without the compiled wheel, which takes minutes")
    parser.add_argument("--check", metavar="WHEEL", nargs="+", type=Path, help="build nothing, look at these wheels")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            for wheel in arguments.check:
                say(check_wheel(wheel))
            return 0
        made = build_all(arguments.pure)
        PAGE.write_text(with_sizes(PAGE.read_text(), made))
    except DistError as error:
        say(str(error))
        return 1
    for path in made:
        say(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} octets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
