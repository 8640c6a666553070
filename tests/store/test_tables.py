"""Records and their checksums: any change is noticed, and positions of version 1 are read."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from penstock.store import tables
from penstock.store.records import (
    UNKNOWN,
    BodyPiece,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    RowBodies,
    SettlementRecord,
)
from penstock.store.tables import ChecksumError

ROW = MessageRow(3, b"data", 7, 11, 2, 600)
PIECE = BodyPiece(9, 2, 4, b"data")
COLUMNS: dict[str, tuple[Any, ...]] = {
    "rows": (*ROW[:1], *ROW[2:], zlib.crc32(b"data"), 285554794, b"data"),
    "notes": (5, 1527376025, b"s"),
    "things": (1, b"queue", b"q", 3248825600, b"m"),
    "pieces": (PIECE.key(), 9, 4, zlib.crc32(b"data"), 2766066422, b"data"),
    "row_bodies": (3, 2, 2159368650, (9).to_bytes(8, "little") + (11).to_bytes(8, "little")),
    "positions": (7, 20, 10, 4, 500728019),
}
"""Columns of records as they are in stores, with their checksums."""
RECORDS = {
    "rows": ROW,
    "notes": SettlementRecord(5, b"s"),
    "things": MetadataRecord("queue", "q", b"m"),
    "positions": QueuePosition(7, 20, 10, 4),
    "pieces": PIECE,
    "row_bodies": RowBodies(3, (9, 11)),
}


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_tables_read_records_as_written_and_detect_a_change_of_any_column(table: tables.Table) -> None:
    columns = COLUMNS[table.name]
    assert table.read(columns) == RECORDS[table.name]
    is_thing = table is tables.METADATA_RECORDS
    assert columns == (table.write(1, b"queue", b"q", b"m") if is_thing else table.write(RECORDS[table.name]))
    for at, value in enumerate(columns):
        changed = value + b"x" if isinstance(value, bytes) else value + 1
        with pytest.raises(ChecksumError, match="its checksum is wrong"):
            table.read((*columns[:at], changed, *columns[at + 1 :]))
        with pytest.raises(ChecksumError):
            table.read((*columns[:at], "of another type", *columns[at + 1 :]))


def test_tables_read_positions_of_version_1_without_a_number_of_messages() -> None:
    old = QueuePosition(7, 20, 10)
    assert tables.write_position(old) == (*old, 1353846729)
    assert tables.read_position((*old, 1353846729)) == old
    assert old.messages == UNKNOWN


def test_tables_keep_names_whose_bytes_are_no_text() -> None:
    assert tables.encoded(tables.decoded(b"caf\xe9")) == b"caf\xe9"


def test_damage_names_a_page_with_the_queue_and_a_damaged_head_without() -> None:
    columns = COLUMNS["rows"]
    damage = tables.damage_of(tables.ROWS, columns[:7], "why")
    assert (damage.what, damage.why, damage.queue, damage.messages) == ("page 3 of queue number 7", "why", 7, 2)
    assert tables.damage_of(tables.ROWS, (4, *columns[1:7]), "why").what == "row 4"
    assert tables.damage_of(tables.PIECES, COLUMNS["pieces"], "why").what == "piece 2 of body 9"
    assert tables.damage_of(tables.ROW_BODIES, COLUMNS["row_bodies"], "why").what == "bodies of row 3"
    assert tables.damage_of(tables.POSITIONS, COLUMNS["positions"], "why").what == "position 7"
