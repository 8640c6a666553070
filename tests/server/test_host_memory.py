"""Memory and files of the machine, as far as this process may have them."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from penstock.server import host_memory


def test_host_memory_is_that_of_the_machine_or_the_lower_limit_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "LIMITS", (tmp_path / "none", tmp_path / "limit"))
    machine = host_memory.memory_bytes()
    assert machine > 0
    for text, expected in (("max", machine), (str(machine * 2), machine), ("1000000", 1_000_000)):
        (tmp_path / "limit").write_text(f"{text}\n")
        assert host_memory.memory_bytes() == expected


def test_host_memory_knows_the_limit_of_open_files() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert host_memory.open_files() == soft or soft == resource.RLIM_INFINITY
