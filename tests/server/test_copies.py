"""Brokers of tests that start as copies of a process behave like new processes; see forked_penstock.py."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forked_penstock
from tests.support.brokers import GRACE, BrokerProcess, serving
from tests.support.forked_penstock import ForkedProcess

pytestmark = pytest.mark.skipif(
    os.environ.get("PENSTOCK_COLD") == "1" or not Path("/proc/self/fd").exists(), reason="brokers begin anew here"
)


@pytest.fixture(autouse=True)
def original(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process to be copied for these tests: others may have changed their environment since there was one."""
    monkeypatch.setattr(forked_penstock, "_originals", [])
    yield
    for each in forked_penstock._originals:
        each.end()


def kinds_of_files(broker: BrokerProcess) -> list[str]:
    """Return the kinds of the files that it has open, behind its standard input."""
    links = (os.readlink(path) for path in Path(f"/proc/{broker.pid}/fd").iterdir() if path.name != "0")
    return sorted(link.partition(":")[0] for link in links if not link.startswith("/"))


def test_copy_is_a_separate_process_and_its_end_is_reported(tmp_path: Path) -> None:
    with serving(tmp_path) as first, serving(tmp_path) as second, serving(tmp_path) as third:
        assert isinstance(first.process, ForkedProcess)
        assert len({os.getpid(), first.pid, second.pid, third.pid}) == 4
        first.process.kill()
        assert first.process.wait(GRACE) == -9
        assert first.process.poll() == -9
        first.process.kill()
        with pytest.raises(subprocess.TimeoutExpired):
            second.process.wait(0)
        assert second.stop() == 0
        assert third.alive()
        assert "Stopped" in second.log()
        assert "Stopped" not in third.log()


def test_copy_has_no_more_open_files_than_a_new_process(tmp_path: Path) -> None:
    with serving(tmp_path), serving(tmp_path) as copy, serving(tmp_path, environment={}) as anew:
        assert isinstance(copy.process, ForkedProcess)
        assert isinstance(anew.process, subprocess.Popen)
        assert kinds_of_files(copy) == kinds_of_files(anew)


def test_broker_of_another_environment_folder_or_limit_starts_as_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as broker:
        assert isinstance(broker.process, ForkedProcess)
    with monkeypatch.context() as changed:
        changed.setenv("PENSTOCK_OF_A_TEST", "1")
        with serving(tmp_path) as broker:
            assert isinstance(broker.process, subprocess.Popen)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
    try:
        with serving(tmp_path) as broker:
            assert isinstance(broker.process, subprocess.Popen)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path) as broker:
        assert isinstance(broker.process, subprocess.Popen)
