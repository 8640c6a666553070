"""Clients that tests fetch and build, pinned by hashes.

Qpid JMS, Artemis, RabbitMQ's client of AMQP 1.0 for Java, Spring AMQP, reactor-rabbitmq, PerfTest and what Broker-J's
protocol tests need come from Maven Central, go-amqp, amqp091-go and Watermill from the Go module proxy, fe2o3-amqp and
lapin from crates.io, NestJS from npm, and azure-servicebus and uamqp from PyPI.
They are fetched where PENSTOCK_FETCH=1 asks for it, as `make test-clients` does. Other test runs use what is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "clients"
STORE = ROOT / "build" / "clients"
"""What was fetched, in folders named after the hash of what asks for it."""
TIMEOUT_S = 500
BROKERJ_VERSION = "10.0.1"


class ClientMissingError(Exception):
    """A client is not here, and cannot be fetched; says why."""


@cache
def jms_jars() -> Path:
    """Return the folder with the jars of Qpid JMS. Raises ClientMissingError."""
    return _jars("Qpid JMS", HERE / "java" / "jms")


@cache
def rabbitmq_jars() -> Path:
    """Return the folder with the jars of RabbitMQ's client of AMQP 1.0. Raises ClientMissingError."""
    return _jars("RabbitMQ's client of AMQP 1.0", HERE / "java" / "rabbitmq")


@cache
def framework_jars() -> Path:
    """Return the folder with the jars of Java's frameworks. Raises ClientMissingError."""
    return _jars("Spring AMQP, reactor-rabbitmq and PerfTest", HERE / "java" / "frameworks")


def _jars(what: str, source: Path) -> Path:
    found = _place(source, "pom.xml", "jars.sha256")
    if not found.is_dir():
        with _fetching(what, "mvn", found) as folder:
            _maven(what, source, folder)
            shutil.copytree(folder, found)
    return found


@cache
def artemis_home() -> Path:
    """Return the folder of Artemis: ARTEMIS_HOME, or what was fetched. Raises ClientMissingError."""
    if os.environ.get("ARTEMIS_HOME"):
        return Path(os.environ["ARTEMIS_HOME"])
    source = HERE / "java" / "artemis"
    found = _place(source, "pom.xml", "jars.sha256")
    if not found.is_dir():
        with _fetching("Artemis", "mvn", found) as folder:
            _maven("Artemis", source, folder)
            (archive,) = Path(folder).iterdir()
            _run(["tar", "-xzf", str(archive)], Path(folder))
            (unpacked,) = (each for each in Path(folder).iterdir() if each.is_dir())
            shutil.copytree(unpacked, found)
    return found


@cache
def brokerj_tests(source: Path) -> Path:
    """Compile the protocol tests of AMQP 1.0 in Broker-J's source tree, and return their folder.

    Its folder `jars` has what they need; `processor`, `protocol` and `tests` have classes. Raises ClientMissingError.
    """
    here = HERE / "java" / "brokerj"
    pom = source / "pom.xml"
    if not pom.is_file() or f"<version>{BROKERJ_VERSION}</version>" not in pom.read_text():
        raise ClientMissingError(f"{source} is not the source tree of Broker-J {BROKERJ_VERSION}")
    found = _place(here, "pom.xml", "jars.sha256")
    if not found.is_dir():
        if shutil.which("javac") is None:
            raise ClientMissingError("javac is not installed: it compiles Broker-J's protocol tests")
        with _fetching("what Broker-J's protocol tests need", "mvn", found) as folder:
            _maven("Broker-J's protocol tests", here, f"{folder}/jars")
            _compile_brokerj(source, here / "absent", Path(folder))
            shutil.copytree(folder, found)
    return found


def _compile_brokerj(source: Path, absent: Path, folder: Path) -> None:
    """Compile the processor that writes classes of the protocol, the protocol, and the tests of it."""
    processor, protocol, systests = (
        source / "broker-codegen",
        source / "broker-plugins/amqp-1-0-protocol",
        source / "systests",
    )
    tests = systests / "protocol-tests-amqp-1-0" / "src"
    used = [absent, systests / "systests-utils/src/main/java", systests / "protocol-tests-core/src/main/java",
            source / "qpid-test-utils/src/main/java", tests / "main/java"]  # fmt: skip
    jars = os.pathsep.join(str(jar) for jar in (folder / "jars").iterdir())

    def compile(root: Path, to: str, *options: str) -> None:
        # One test is of their harness.
        files = (path for path in root.rglob("*.java") if path.name != "ExistingQueueAdminTest.java")
        classes = os.pathsep.join((jars, *(str(folder / part) for part in ("processor", "protocol"))))
        words = ["javac", "-nowarn", "-d", to, "-cp", classes, *options]
        _run([*words, *map(str, files)], folder)

    compile(processor / "src/main/java", "processor", "-proc:none")
    shutil.copytree(processor / "src/main/resources", folder / "processor", dirs_exist_ok=True)
    compile(protocol / "src/main/java", "protocol", "-processorpath", os.pathsep.join((jars, "processor")))
    compile(tests, "tests", "-proc:none", "-sourcepath", os.pathsep.join(map(str, used)))


@cache
def go_program() -> Path:
    """Return the program with go-amqp, amqp091-go and Watermill. Raises ClientMissingError."""
    source = HERE / "golang"
    found = _place(source, "go.mod", "go.sum", *sorted(path.name for path in source.glob("*.go")))
    if not found.exists():
        with _fetching("the program of Go's clients", "go", found) as scratch:
            program = Path(scratch, "program")
            _run(["go", "build", "-mod=readonly", "-o", str(program), "."], source)
            shutil.copy(program, found)
    return found


@cache
def go_tests() -> Path:
    """Return the program with go-amqp's own tests, which are part of its module. Raises ClientMissingError."""
    source = HERE / "golang"
    found = _place(source, "go.sum")
    if not found.exists():
        with _fetching("go-amqp", "go", found) as folder:
            program = Path(folder, "tests")
            _run(["go", "test", "-mod=readonly", "-c", "-o", str(program), "github.com/Azure/go-amqp"], source)
            shutil.copy(program, found)
    return found


@cache
def nest_packages() -> Path:
    """Return the folder with NestJS in `node_modules`. Raises ClientMissingError."""
    source = HERE / "node" / "nest"
    found = _place(source, "package.json", "package-lock.json")
    if not found.is_dir():
        with _fetching("NestJS", "npm", found) as folder:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(source / name, folder)
            _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], Path(folder))
            shutil.copytree(folder, found, symlinks=True)
    return found


@cache
def rust_program() -> Path:
    """Return the program with fe2o3-amqp. Raises ClientMissingError."""
    return _cargo("fe2o3-amqp", "rust", "fe2o3-driver")


@cache
def lapin_program() -> Path:
    """Return the program with lapin. Raises ClientMissingError."""
    return _cargo("lapin", "rust091", "lapin-driver")


def _cargo(what: str, folder: str, package: str) -> Path:
    source = HERE / folder
    found = _place(source, "Cargo.toml", "Cargo.lock", "src/main.rs")
    if not found.exists():
        with _fetching(what, "cargo", found) as scratch:
            _run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", scratch], source)
            shutil.copy(Path(scratch, "release", package), found)
    return found


@cache
def azure_python() -> Path:
    """Return a Python with azure-servicebus. Raises ClientMissingError."""
    return _python_with("azure-servicebus", "azure.lock")


@cache
def uamqp_python() -> Path:
    """Return a Python with uamqp. Raises ClientMissingError."""
    if shutil.which("openssl") is None:
        raise ClientMissingError("openssl is not installed: uamqp speaks only TLS, and it makes the certificate")
    return _python_with("uamqp", "uamqp.lock")


@cache
def interop_python() -> Path:
    """Return a Python with what qpid-interop-test needs besides our environment. Raises ClientMissingError."""
    return _python_with("what qpid-interop-test needs", "interop.lock")


def _python_with(what: str, lock: str) -> Path:
    """Return the interpreter of an environment with what a lock lists, and nothing else of ours."""
    source = ROOT / "requirements" / "clients"
    found = _place(source, lock)
    python = found / "bin" / "python"
    if not found.is_dir():
        with _fetching(what, sys.executable, found):
            part = Path(f"{found}.part")
            _run([sys.executable, "-m", "venv", "--clear", str(part)], source)
            pip = [str(part / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--require-hashes", "-r", lock], source)
            part.rename(found)
    return python


def _maven(what: str, source: Path, folder: str) -> None:
    """Copy what a pom.xml asks for into a folder, and compare it with the hashes of jars.sha256."""
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    _run(["mvn", "--quiet", "--batch-mode", "--file", str(source / "pom.xml"), *goal], source)
    listed = dict(reversed(line.split()) for line in (source / "jars.sha256").read_text().splitlines())
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).iterdir()}
    if there != listed:
        raise ClientMissingError(f"what Maven fetched for {what} is not what jars.sha256 lists")


def _place(folder: Path, *names: str) -> Path:
    every = b"\0".join((folder / name).read_bytes() for name in names)
    return STORE / f"{folder.name}-{hashlib.sha256(every).hexdigest()[:12]}"


def _fetching(what: str, tool: str, place: Path) -> tempfile.TemporaryDirectory[str]:
    """Return a folder to fetch into, if that may be done."""
    if os.environ.get("PENSTOCK_FETCH") != "1":
        raise ClientMissingError(f"{what} is not here: `make test-clients` fetches it")
    if shutil.which(tool) is None:
        raise ClientMissingError(f"{what} is not here, and {tool} is not installed")
    place.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory()


def _run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode:
        last = (f"{done.stdout}\n{done.stderr}".strip().splitlines() or ["it said nothing"])[-1]
        raise ClientMissingError(f"{words[0]} could not fetch what is asked for: {last}")
