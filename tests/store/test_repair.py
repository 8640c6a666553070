"""Repair of a store: saved records, lost ones, and refusals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import StartError, StoreError
from penstock.store.directory import DataDirectory
from penstock.store.repair import repair
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE
from tests.support.open_stores import committing, contents, filled, opened, some_row, unprivileged


def test_repair_of_a_store_in_order_saves_all_in_order(tmp_path: Path) -> None:
    written = filled(tmp_path / "whole")
    saved = repair(tmp_path / "whole", tmp_path / "saved")
    assert saved == (47, 20, 37, 3, 16, 17, [])
    with opened(tmp_path / "saved") as store:
        assert contents(store) == written
        assert store.damaged == store.check() == []


def test_rows_of_a_mebibyte_are_saved_many_transactions_long(tmp_path: Path) -> None:
    rows = [some_row(number, 1 << 20) for number in range(1, 21)]
    with opened(tmp_path / "whole") as store:
        for row in rows:
            store.commit(committing(rows=[row]))
    assert repair(tmp_path / "whole", tmp_path / "saved").rows == 20
    with opened(tmp_path / "saved") as store:
        assert list(store.rows()) == rows


def test_repair_does_not_bring_deleted_records_back(tmp_path: Path) -> None:
    """It still stands in pages that are free."""
    with opened(tmp_path / "whole") as store:
        store.commit(committing(rows=[some_row(number) for number in range(1, 200)]))
        store.commit(committing(rows_gone=list(range(1, 199))))
    assert some_row(50).data in (tmp_path / "whole" / FILE).read_bytes()
    assert repair(tmp_path / "whole", tmp_path / "saved") == (1, 0, 0, 0, 0, 0, [])
    lose_list_of_free_pages(tmp_path / "whole" / FILE)
    assert repair(tmp_path / "whole", tmp_path / "again") == (1, 0, 0, 0, 0, 0, [])


def lose_list_of_free_pages(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    assert octets[36:40] != bytes(4)
    octets[32:36] = (1).to_bytes(4, "big")
    path.write_bytes(octets)


def test_beginning_of_the_file_may_be_anything(tmp_path: Path) -> None:
    written = filled(tmp_path / "whole")
    path = tmp_path / "whole" / FILE
    path.write_bytes(os.urandom(PAGE_SIZE) + path.read_bytes()[PAGE_SIZE:])
    assert repair(tmp_path / "whole", tmp_path / "saved").lost == []
    with opened(tmp_path / "saved") as store:
        assert contents(store) == written


def test_repair_of_a_cut_file_saves_the_rest_and_counts_the_loss(tmp_path: Path) -> None:
    written = filled(tmp_path / "whole")
    path = tmp_path / "whole" / FILE
    os.truncate(path, path.stat().st_size * 2 // 3)
    saved = repair(tmp_path / "whole", tmp_path / "saved")
    assert 10 < saved.rows < len(written.rows)
    named = sum(damage.what.startswith(("row ", "page ")) for damage in saved.lost)
    unnamed = sum(int(damage.what.split()[0]) for damage in saved.lost if damage.what.endswith("rows"))
    assert saved.rows + named + unnamed == len(written.rows)


@pytest.mark.parametrize("octets", [b"", b"\x00" * 100_000, b"nothing of ours"])
def test_repair_of_another_file_saves_and_reports_no_records(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / FILE).write_bytes(octets)
    saved = repair(tmp_path / "whole", tmp_path / "saved")
    assert saved[:4] == (0, 0, 0, 0)
    assert {damage.why for damage in saved.lost} == {"how many there were cannot be read"}


def test_nonempty_target_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "whole")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-my-aunt").write_text("Dear aunt")
    with pytest.raises(StoreError) as raised:
        repair(tmp_path / "whole", tmp_path / "letters")
    expected = f"cannot save '{tmp_path / 'whole' / FILE}' to '{tmp_path / 'letters'}': that folder is not empty"
    assert str(raised.value) == expected


def test_store_that_a_broker_uses_is_refused_and_no_file_is_created(tmp_path: Path) -> None:
    filled(tmp_path / "whole")
    broker = DataDirectory(tmp_path / "whole")
    broker.lock()
    with pytest.raises(StartError, match=f"is in use by another broker \\(process {os.getpid()}\\)"):
        repair(tmp_path / "whole", tmp_path / "saved")
    broker.unlock()
    assert not (tmp_path / "saved").exists()
    assert repair(tmp_path / "whole", tmp_path / "saved").rows == 47


def test_folder_without_a_store_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^cannot read the store '.*': No such file or directory$"):
        repair(tmp_path, tmp_path / "saved")
    with pytest.raises(StartError, match=r"^there is no data directory '.*nowhere'$"):
        repair(tmp_path / "nowhere", tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_store_that_may_only_be_read_is_saved(open_folder: Path, tmp_path: Path) -> None:
    source = open_folder / "whole"
    written = filled(source)
    (open_folder / "target").mkdir()
    source.chmod(0o500)
    (source / FILE).chmod(0o400)
    with unprivileged(open_folder):
        assert repair(source, open_folder / "target" / "saved").lost == []
    with opened(open_folder / "target" / "saved") as store:
        assert contents(store) == written
