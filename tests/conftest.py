"""What every test run has in common: which form of Penstock is meant, where Java is, and Hypothesis's settings."""

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import penstock
from tests.profiles import CI
from tests.support.certificates import Authority, localhost
from tests.support.faults import Disk, make_library

FORMS = ("interpreted", "compiled")
BEGUN = pytest.StashKey[float]()
"""Processor time at the beginning of a test."""
ROOT = Path(__file__).resolve().parent.parent
SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM: a short run gains nothing from the optimising compiler and the parallel collector."""

settings.load_profile(CI)

# `import pyspark_penstock` would choose it later: brokers no longer begin as copies when the environment has changed.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

if Path(penstock.__file__).is_relative_to(ROOT / "src"):
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # Brokers and clients that tests start are of the same form.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expect",
        choices=FORMS,
        default=os.environ.get("PENSTOCK_EXPECT"),
        help="fail at once unless Penstock runs in this form (also: PENSTOCK_EXPECT)",
    )
    parser.addoption(
        "--kill-rounds", type=int, default=3, help="how often a broker is killed in the middle of a client's sends"
    )


def pytest_configure(config: pytest.Config) -> None:
    expected: str | None = config.getoption("--expect")
    found = "compiled" if penstock.compiled() else "interpreted"
    if expected is not None and expected != found:
        raise pytest.UsageError(f"these tests were to run {expected}, but {penstock.__file__} is {found}")


@pytest.fixture
def kill_rounds(request: pytest.FixtureRequest) -> int:
    """How often a broker is killed in the middle of a client's sends, with each protocol."""
    rounds: int = request.config.getoption("--kill-rounds")
    return rounds


def pytest_report_header() -> str:
    form = "compiled" if penstock.compiled() else "interpreted"
    return f"penstock: {form}, from {Path(penstock.__file__).parent}"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the garbage collector from looking at thousands of tests again and again; prepare Java and the report."""
    forget_survivors()
    provide_java(session)
    report_slow_marks(session)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[BEGUN] = cpu_s()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Write the processor time of a test into its report; hide what a file of tests leaves behind, such as caches."""
    try:
        yield
    finally:
        item.user_properties.append(("cpu", f"{cpu_s() - item.stash[BEGUN]:.2f}"))
        if nextitem is not None and nextitem.path != item.path:
            forget_survivors()


def cpu_s() -> float:
    """Return the seconds of processor time of this process, and of its children that have ended."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def forget_survivors() -> None:
    """Collect garbage, and hide all that is left from later collections."""
    gc.collect()
    gc.freeze()


def provide_java(session: pytest.Session) -> None:
    """Give the tests with Spark a JVM, or skip them by name."""
    items = [item for item in session.items if item.get_closest_marker("spark")]
    if not items:
        return
    found = subprocess.run([ROOT / "scripts" / "jdk.sh", "--no-install"], capture_output=True, text=True, check=False)
    if found.returncode:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=found.stderr.strip()))
        return
    os.environ["JAVA_HOME"] = found.stdout.strip()
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ.setdefault(name, SHORT_RUN)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def report_slow_marks(session: pytest.Session) -> None:
    """Write the mark `slow` into the report of its tests: scripts/check.py names long tests without the mark."""
    for item in session.items:
        if item.get_closest_marker("slow") is not None:
            item.user_properties.append(("slow", ""))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return a certificate authority with certificates for localhost and its clients, in a folder of its own."""
    return localhost(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library that lets a disk fail."""
    return make_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def disk(library: Path, tmp_path: Path) -> Disk:
    """Return a disk that fails when it is told to."""
    return Disk(library, tmp_path / "failing")
