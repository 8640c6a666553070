"""Reading a store that is damaged in places."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.store.sqlite import FILE
from tests.support.open_stores import committing, opened, some_page, some_row


def test_damaged_row_is_reported_by_number_and_a_page_with_the_queue(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1), some_row(2), some_page(3, 7, 100, 30_000), some_page(4, 7, 200)]))
    spoil(tmp_path, some_row(2).data[500:520])
    spoil(tmp_path, some_page(3, 7, 100, 30_000).data[15_000:15_020])
    with opened(tmp_path) as store:
        assert [row.number for row in store.rows()] == [1, 3, 4]
        assert [page.number for page in store.pages(7, 0, 1_000_000)] == [4]
        assert [page.number for page in store.pages(7, 0, 1_000_000)] == [4]
        told = [(damage.what, damage.why, damage.queue, damage.messages) for damage in store.damaged]
        checked = [damage.what for damage in store.check()]
    assert told == [
        ("row 2", "its checksum is wrong", 0, 0),
        ("page 3 of queue number 7", "its checksum is wrong", 7, 10),
    ]
    assert checked == ["row 2", "page 3 of queue number 7"]


def spoil(directory: Path, octets: bytes) -> None:
    """Find these octets in the file, and change one of them, also where they stood before a page was divided."""
    file = (directory / FILE).read_bytes()
    assert octets in file
    (directory / FILE).write_bytes(file.replace(octets, bytes([octets[0] ^ 1]) + octets[1:]))


def test_damaged_store_continues_with_the_readable_rows(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1), some_row(2)]))
    spoil(tmp_path, some_row(2).data[500:520])
    with opened(tmp_path) as store:
        assert [row.number for row in store.rows()] == [1]
        store.commit(committing(rows=[some_row(3)], rows_gone=[2]))
    with opened(tmp_path) as store:
        assert [row.number for row in store.rows()] == [1, 3]
        assert store.damaged == []
        assert store.check() == []


def test_data_that_disappears_while_the_store_is_open_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(number, 60_000) for number in range(1, 10)]))
    with opened(tmp_path) as store:
        os.truncate(store.path, store.path.stat().st_size // 2)
        assert len(list(store.rows())) < 9
        assert store.damaged
        assert store.check()
