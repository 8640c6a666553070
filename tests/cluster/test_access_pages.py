"""Pages of access: they fit into packets, and together they have all rows in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cluster.access_pages import ROWS_MOST, page_after, read_place, read_rows
from penstock.cluster.catalogue import BEGIN, AccessRow, Catalogue, CatalogueReader
from penstock.cluster.packet_channel import PACKET_MOST, Row
from penstock.errors import StoreError
from penstock.store.records import MetadataRecord, StoreTransaction

LARGEST = 34_000
"""Bytes of the largest row: a user with 64 tags of 85 characters that JSON escapes, and keys."""


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    found = Catalogue(tmp_path, lambda version: None)
    found.open()
    yield found
    found.close()


def pages_of(catalogue: Catalogue) -> list[Row]:
    """Return all pages, as a shard asks for them."""
    reader, place, pages = CatalogueReader(catalogue.path.parent), BEGIN, []
    while not pages or not pages[-1]["last"]:
        pages.append(json.loads(json.dumps(page_after(reader, place))))
        assert read_place(pages[-1]["after"]) == place
        place = read_place(pages[-1]["place"])
    reader.close()
    return pages


def write(catalogue: Catalogue, *records: MetadataRecord) -> None:
    commit = StoreTransaction()
    commit.metadata = list(records)
    catalogue.commit(commit)


def test_catalogue_without_rows_is_one_page(catalogue: Catalogue) -> None:
    (page,) = pages_of(catalogue)
    assert page == {"after": [0, "", ""], "rows": [], "place": [0, "", ""], "last": True, "version": 0}


@pytest.mark.parametrize("count", [1, ROWS_MOST - 1, ROWS_MOST, ROWS_MOST + 1, 3 * ROWS_MOST])
def test_pages_have_all_rows_once_and_in_order(catalogue: Catalogue, count: int) -> None:
    write(catalogue, *[MetadataRecord("user", f"u{number:04}", b"\x01{}") for number in range(count)])
    write(catalogue, MetadataRecord("user", "u0000", None))
    rows = [row for page in pages_of(catalogue) for row in read_rows(page)]
    users = [AccessRow(1, "user", f"u{number:04}", b"\x01{}") for number in range(1, count)]
    assert rows == [*users, AccessRow(2, "user", "u0000", None)]


def test_largest_rows_fit_into_packets(catalogue: Catalogue) -> None:
    rows = [MetadataRecord("user", f"u{number}", b"\x01" + b"\xff" * LARGEST) for number in range(10)]
    write(catalogue, *rows)
    pages = pages_of(catalogue)
    assert max(len(json.dumps(page)) for page in pages) < PACKET_MOST
    assert sum(len(page["rows"]) for page in pages) == len(rows)


def test_global_parameters_stay_in_the_node_and_pages_go_on(catalogue: Catalogue) -> None:
    parameters = [MetadataRecord("parameter", f"p{number:04}", b"\x01{}") for number in range(ROWS_MOST + 1)]
    write(catalogue, *parameters)
    write(catalogue, MetadataRecord("user", "alice", b"\x01{}"))
    pages = pages_of(catalogue)
    assert [row.key for page in pages for row in read_rows(page)] == ["alice"]
    assert len(pages) == 2


@pytest.mark.parametrize("value", [None, [], [1, "user"], ["1", "user", "x"], [1, 2, "x"], {"version": 1}])
def test_place_of_another_form_is_refused(value: object) -> None:
    with pytest.raises(StoreError, match="a version, a kind and a key"):
        read_place(value)
