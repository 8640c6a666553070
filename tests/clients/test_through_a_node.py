"""Suites of a broker, run through the parent of a node with two shards: a part of each plane always, all at length.

`PENSTOCK_THROUGH=2 pytest PATH` does it by hand. A test that is about one process says so here, with the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
SMOKE = {
    "AMQP 0-9-1": ("tests/clients/test_pika_delivery.py", "tests/clients/test_transactions.py"),
    "AMQP 1.0": ("tests/clients/test_proton_links.py",),
    "HTTP": ("tests/server/http/test_operator.py", "tests/server/http/test_permissions.py"),
    "command line": ("tests/cli/test_status.py",),
}
"""Tests that always run through a node, by plane."""
WHOLE = {"clients": ("tests/clients",), "command line": ("tests/cli",)}
"""Folders that run through a node at length."""
LEFT_OUT = {
    "tests/clients/test_backup_guide.py": "the store of a node is in several folders",
    "tests/clients/test_killed_shard.py": "kills a broker of one process beside a shard",
    "tests/clients/test_readme.py": "the ready line of one process",
    "tests/clients/test_rabbitmq_amqp10.py::test_quorum_queue_is_declared_and_a_stream_is_not": "needs --memory",
    "tests/clients/test_settings.py::test_invalid_setting_is_refused_in_one_sentence": "needs --memory",
    "tests/clients/test_shards_guide.py": "has a node of its own",
    "tests/clients/test_through_a_node.py": "starts this",
    "tests/cli/test_cluster.py": "refusals of a broker without shards",
    "tests/cli/test_definitions.py::test_import_of_a_mixed_export_skips_refused_entries_and_their_dependents": "needs "
    "--memory",
    "tests/cli/test_serve.py": "options and the ready line of one process",
    "tests/cli/test_serve_shards.py": "has nodes of its own",
    "tests/cli/test_service.py": "the service of one process",
    "tests/cli/test_store.py": "stores of one process and of nodes",
}
"""Tests that are about one process, or have a node of their own, and the reason."""

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(3600)]


def run_through(paths: tuple[str, ...], marks: str) -> None:
    """Run tests whose brokers are nodes with two shards. They must pass, and some must have run."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, *paths]
    if ROOT / "src" not in Path(penstock.__file__).parents:
        words += ["-o", "pythonpath=."]  # What is installed, as in the run that has started this.
    for test in LEFT_OUT:
        words += ["--deselect", test]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "PENSTOCK_THROUGH": "2"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("plane", SMOKE)
def test_plane_of_a_node_passes_a_part_of_the_tests_of_a_broker(plane: str) -> None:
    run_through(SMOKE[plane], "not slow and not long")


@pytest.mark.long
@pytest.mark.parametrize("plane", WHOLE)
def test_plane_of_a_node_passes_the_tests_of_a_broker(plane: str) -> None:
    run_through(WHOLE[plane], "not long")


def test_tests_that_are_left_out_are_there() -> None:
    for test in LEFT_OUT:
        assert (ROOT / test.partition("::")[0]).exists(), test
