"""Check and repair of a data directory, and the fate of its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import StartError, StoreError
from penstock.server.store_open import check_directory, repair_directory
from penstock.store.directory import DataDirectory
from tests.support.damaged_store import make


def test_store_repair_finds_a_store_in_order(tmp_path: Path) -> None:
    make(tmp_path / "store")
    report = check_directory(tmp_path / "store")
    assert report.damaged == []


def test_store_repair_copies_everything_into_a_folder_that_is_in_order(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    make(source)
    report = repair_directory(source, target)
    assert report.saved.lost == []
    assert check_directory(target).damaged == []


def test_store_repair_refuses_a_directory_that_a_broker_uses(tmp_path: Path) -> None:
    make(tmp_path / "store")
    directory = DataDirectory(tmp_path / "store")
    directory.lock()
    try:
        with pytest.raises((StartError, StoreError)):
            check_directory(tmp_path / "store")
    finally:
        directory.unlock()
    assert check_directory(tmp_path / "store").damaged == []
