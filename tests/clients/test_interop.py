"""qpid-interop-test 2.0 between Qpid Proton for Python and rhea: each type, fields of the header, and large messages.

It is in no package registry. PENSTOCK_INTEROP_TEST is a checkout; it is copied, and runs with the Proton of our
environment and the rhea of tests/clients/node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.client_checks import available
from tests.support.fetched_clients import HERE, interop_python
from tests.support.foreign_suites import compare, read_expected, read_junit, source_of

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

SHIMS = ("python-proton", "javascript-rhea")
TYPES = "from qit.cli.main import cli; cli()"
LARGE = "not smallframe and not largeframe"
"""Others need listeners with other sizes of frames."""
LIMIT_S = 400


def checkout(folder: Path) -> Path:
    """Return a copy of the suite with the two programs of clients that are here."""
    source = Path(source_of("PENSTOCK_INTEROP_TEST", "qpid-interop-test"))
    if shutil.which("node") is None or not (HERE / "node" / "node_modules" / "rhea").is_dir():
        pytest.skip("qpid-interop-test: not run, rhea is not installed in tests/clients/node")
    for part in ("src", "tests", "docker", *(f"shims/{shim}" for shim in SHIMS)):
        shutil.copytree(source / part, folder / part)
    (folder / "shims" / "javascript-rhea" / "node_modules").symlink_to(HERE / "node" / "node_modules")
    return folder


def run(words: list[str], folder: Path, suite: Path, broker: BrokerProcess) -> None:
    (packages,) = available(interop_python).parents[1].glob("lib/python*/site-packages")
    paths = (suite / "src", suite / "tests", packages)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "QIT_BROKER_URL": f"{broker.host}:{broker.port}",
    }
    with (suite / "log").open("a") as log:
        subprocess.run([sys.executable, *words], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT,
                       check=False, timeout=LIMIT_S)  # fmt: skip


def test_interop_tests_fail_only_where_it_is_expected(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    suite = checkout(tmp_path / "suite")
    with serving(tmp_path) as broker:
        broker.command("set", "queue", "#", "auto-create=true")
        address = f"amqp://{broker.host}:{broker.port}"
        types = [
            "-c",
            TYPES,
            "test",
            "amqp-types",
            "--broker",
            address,
            "-j",
            "2",
            "--junit-xml",
            str(tmp_path / "types.xml"),
        ]
        run(types, suite, suite, broker)
        options = ["--rootdir=.", "--timeout=45", "-p", "no:cacheprovider", "-W", "ignore", "-k", LARGE]
        report = f"--junitxml={tmp_path}/messages.xml"
        files = ["test_amqp_headers.py", "test_large_content.py"]
        messages = ["-m", "pytest", "-q", "-c", "/dev/null", *options, report, *files]
        run(messages, suite / "tests", suite, broker)
    told = read_junit([tmp_path / "types.xml", tmp_path / "messages.xml"], "{}.{}".format)
    compare(told, read_expected(HERE / "interop_expected.txt"))
    record_testsuite_property("test_interop", told.words())
