"""Freed memory: pages that only the start needed are returned to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.server import freed_memory
from penstock.server.freed_memory import unchanged_mappings

SMAPS = """\
1000-3000 r-xp 00000000 08:01 11 /lib/a.so
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
3000-4000 r--p 00002000 08:01 11 /lib/a.so
Anonymous:             4 kB
4000-5000 rw-p 00003000 08:01 11 /lib/a.so
Anonymous:             0 kB
5000-6000 r--s 00000000 00:05 12 /dev/shm/shared
Anonymous:             0 kB
6000-7000 r-xp 00000000 00:00 0
Anonymous:             0 kB
7000-8000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
8000-a000 r--p 00000000 08:01 13 /with a space/b.so
Anonymous:             0 kB
"""


def test_file_mappings_that_are_never_written_are_found(tmp_path: Path) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(SMAPS)
    assert unchanged_mappings(smaps) == [(0x1000, 0x3000), (0x8000, 0xA000)]


@pytest.mark.skipif(not freed_memory.SMAPS.exists(), reason="the mappings are read from /proc")
def test_pages_of_the_start_are_unmapped_and_mapped_again_on_use() -> None:
    code = (
        "import penstock.server.server; from penstock.server.process_limits import mapped_bytes;"
        "from penstock.server.freed_memory import unmap_start_pages;"
        "print(mapped_bytes(2)); unmap_start_pages(); print(mapped_bytes(2)); import decimal; print(decimal.Decimal(1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after, one = map(int, done.stdout.split())
    assert 0 < after < before / 2
    assert one == 1


def test_system_without_a_list_of_mappings_unmaps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(freed_memory, "SMAPS", tmp_path / "none")
    freed_memory.unmap_start_pages()
