"""The index of a damaged store's pages."""

from __future__ import annotations

from pathlib import Path

from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE
from tests.support.open_stores import committing, opened, some_page


def test_page_index_that_lost_entries_is_rebuilt(tmp_path: Path) -> None:
    pages = [some_page(number, 7, number) for number in range(1, 500)]
    with opened(tmp_path) as store:
        store.commit(committing(rows=pages))
        (root,) = store._connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'pages'").fetchone()
    octets = bytearray((tmp_path / FILE).read_bytes())
    count = (root - 1) * PAGE_SIZE + 3
    assert int.from_bytes(octets[count : count + 2], "big") == len(pages)
    octets[count : count + 2] = (len(pages) // 2).to_bytes(2, "big")
    (tmp_path / FILE).write_bytes(octets)
    with opened(tmp_path) as store:
        assert len(store.pages(7, 0, 1 << 30)) == len(pages) // 2
        assert len(list(store.rows())) == len(pages)
        assert store.pages(7, 0, 1 << 30) == pages
        assert store.damaged == []
