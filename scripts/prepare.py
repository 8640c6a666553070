"""Make ``.venv``, install everything from the lock, and build Penstock into it.

Each of the steps is done again only when what it depends on has changed, so a second run takes a moment. With
``--demo`` only what `make demo` needs is installed, and Penstock is not compiled; what is there already is used.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = (ROOT / "requirements" / "build.lock", ROOT / "requirements" / "development.lock")
DEMO_LOCKS = (ROOT / "requirements" / "build.lock", ROOT / "requirements" / "demo.lock")
PROTON_LOCK = ROOT / "requirements" / "clients" / "proton.lock"
NODE_CLIENT = ROOT / "tests" / "clients" / "node"
PIP = (str(PYTHON), "-m", "pip", "--disable-pip-version-check")


class StepError(Exception):
    """A command of the preparation failed; its output has been shown."""


def say(sentence: str) -> None:
    """Print one sentence of progress at once."""
    print(sentence, flush=True)


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a command, showing its output only if it fails; raise StepError then."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        say(done.stdout)
        raise StepError(f"This command failed with exit code {done.returncode}: {' '.join(command)}")
    for line in done.stdout.splitlines():
        if line.strip().startswith("penstock:"):
            say(line.strip())


def fingerprint(files: Iterable[Path], *words: str) -> str:
    """Return a hash of the files' names and contents, of further words and of this Python."""
    digest = hashlib.sha256(repr((sys.version, *words)).encode())
    for path in sorted(files):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def build_mark(locks: Iterable[Path]) -> str:
    """Return the mark of a build from the sources as they are, with the switches of setup.py as they are."""
    sources = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".typed")]
    sources += [ROOT / "setup.py", ROOT / "pyproject.toml"]
    return fingerprint(sources, fingerprint(locks), os.environ.get("PENSTOCK_PURE", ""), os.environ.get("CC", ""))


def step(name: str, mark: str, sentence: str, action: Callable[[], None], *also: str) -> None:
    """Do the action unless the step's stamp already carries this mark, or one of those that are good enough too."""
    stamp = VENV / f"penstock-{name}.stamp"
    if stamp.exists() and stamp.read_text() in (mark, *also):
        return
    say(sentence)
    start = time.monotonic()
    stamp.unlink(missing_ok=True)
    action()
    stamp.write_text(mark)
    say(f"  done in {time.monotonic() - start:.0f} s.")


def create_environment() -> None:
    """Make the virtual environment, replacing one made by another Python."""
    run(sys.executable, "-m", "venv", "--clear", str(VENV))


def install_locked(locks: Iterable[Path]) -> None:
    """Install the build tools, then everything else; source packages are built with those very tools."""
    for lock in locks:
        run(*PIP, "install", "--quiet", "--require-hashes", "--no-build-isolation", "-r", str(lock))


def forget_stale_modules() -> None:
    """Remove from the build folder what could outlive its source; objects whose C code is unchanged stay of use."""
    for built in (ROOT / "build").glob("lib*/*/**/*"):
        if built.is_dir():
            continue
        source = ROOT / "src" / Path(*built.relative_to(ROOT / "build").parts[1:])
        if built.suffix == ".py" or not source.with_name(f"{built.name.split('.')[0]}.py").exists():
            built.unlink()


def install_penstock() -> None:
    """Build Penstock and put it into the environment, compiled if a C compiler is at hand."""
    forget_stale_modules()
    run(*PIP, "install", "--verbose", "--force-reinstall", "--no-deps", "--no-build-isolation", ".")
    report = "import penstock; print('compiled' if penstock.compiled() else 'interpreted')"
    form = subprocess.run([str(PYTHON), "-P", "-c", report], capture_output=True, text=True, check=True)
    say(f"  Penstock is installed {form.stdout.strip()}.")


def install_proton() -> None:
    """Build Qpid Proton, which some tests use; without a working C compiler they are skipped."""
    try:
        run(*PIP, "install", "--quiet", "--require-hashes", "--no-build-isolation", "-r", str(PROTON_LOCK))
    except StepError:
        say("  Qpid Proton cannot be built: the tests with clients of AMQP 1.0 that need it will be skipped.")


def install_node_client() -> None:
    """Install the AMQP client for node that some tests use."""
    run("npm", "ci", "--no-audit", "--no-fund", cwd=NODE_CLIENT)


def install_test_clients() -> None:
    """Install the clients of other languages, and those built in C, that some tests use."""
    proton = fingerprint([PROTON_LOCK, *LOCKS], os.environ.get("CC", ""))
    step("proton", proton, "Building Qpid Proton, a client of AMQP 1.0 for tests.", install_proton)
    if shutil.which("npm"):
        packages = NODE_CLIENT.glob("package*.json")
        step("node", fingerprint(packages), "Installing the AMQP client for node.", install_node_client)
    else:
        say("npm was not found: the tests with node's client will be skipped.")


def prepare(for_demo: bool) -> None:
    """Do what is not yet done."""
    locks, complete = LOCKS, (fingerprint(LOCKS), build_mark(LOCKS))
    if for_demo:
        locks, os.environ["PENSTOCK_PURE"] = DEMO_LOCKS, "1"
    VENV.mkdir(exist_ok=True)
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        step("environment", fingerprint(()), "Making the virtual environment .venv.", create_environment)
        note = "Installing the locked packages; PySpark alone is some 400 MB, so this takes minutes."
        step("packages", fingerprint(locks), note, partial(install_locked, locks), complete[0])
        step("build", build_mark(locks), "Building and installing Penstock.", install_penstock, complete[1])
        if not for_demo:
            install_test_clients()


if __name__ == "__main__":
    try:
        prepare(for_demo=sys.argv[1:] == ["--demo"])
    except StepError as failure:
        sys.exit(str(failure))
