"""Pages of access: rows of the catalogue on their way to a shard, which asks for one page after the other.

A shard asks for the rows behind the last one that it has. So a shard that is slow delays nobody, a page that is lost
with a shard needs no repair, and a shard that has missed a notice asks after the next question (supervision.py).
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from penstock.cluster.catalogue import AccessRow, CatalogueReader, Place
from penstock.cluster.packet_channel import PACKET_MOST, Row
from penstock.core.settings.table import CLUSTER_NAME
from penstock.errors import StoreError
from penstock.persistence.metadata_records import PARAMETER, key_of

ROWS_MOST: Final = 200
"""Most rows of a page."""
PAGE_BYTES: Final = PACKET_MOST // 4
"""Bytes from which a page ends; one row has fewer bytes than the rest of a packet."""
CLUSTER_NAME_KEY: Final = key_of("", "", CLUSTER_NAME)
"""Key of the only global parameter that shards copy: overviews and greetings have it."""


def page_after(catalogue: CatalogueReader, place: Place, shard: str = "") -> Row:
    """Return the page behind a place: its rows, the place of its last row, and whether it is the last page.

    `shard` is the one that gets its virtual hosts too. `version` of the page is the version up to which the shard has
    all rows after the last page. Raises StoreError if the catalogue cannot be read.
    """
    version = catalogue.version()
    after, found = place, catalogue.rows_after(place, ROWS_MOST, shard)
    rows: list[list[Any]] = []
    size = 0
    for row in found:
        place = (row.version, row.kind, row.key)
        if row.kind != PARAMETER or _is_cluster_name(row):
            rows.append(_written(row))
            size += len(json.dumps(rows[-1]))
        if size >= PAGE_BYTES:
            break
    is_last = len(found) < ROWS_MOST and (not found or place == tuple(found[-1][:3]))
    return {"after": list(after), "rows": rows, "place": list(place), "last": is_last, "version": version}


def _is_cluster_name(row: AccessRow) -> bool:
    """Return whether a row is the name of the cluster, unless it is too long for a page."""
    return row.key == CLUSTER_NAME_KEY and (row.value is None or len(row.value) < PAGE_BYTES // 2)


def read_place(value: object) -> Place:
    """Return the place of a request. Raises StoreError."""
    match value:
        case [int(version), str(kind), str(key)]:
            return version, kind, key
    raise StoreError("a place in the catalogue is a version, a kind and a key")


def read_rows(page: Row) -> list[AccessRow]:
    """Return the rows of a page."""
    return [
        AccessRow(version, kind, key, None if value is None else base64.b64decode(value))
        for version, kind, key, value in page["rows"]
    ]


def _written(row: AccessRow) -> list[Any]:
    return [*row[:3], None if row.value is None else base64.b64encode(row.value).decode()]
