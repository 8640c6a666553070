"""Reading a table piece by piece, so that a million records are never in memory at once.

Theory of operation. A piece begins behind the last one's highest key and ends when it has enough records or bytes. A
cursor of the server would do as well, but needs a transaction for as long as somebody reads, and is lost with the
session; this way others may be written meanwhile, and a session that was lost is no matter.

What the server itself finds damaged spoils the piece that it is in: then each record is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import psycopg

from penstock.store.postgres.faults import DAMAGED, state_of
from penstock.store.postgres.writing import PLACE
from penstock.store.records import MessageRow
from penstock.store.store import Damage
from penstock.store.tables import METADATA_RECORDS, ROWS, ChecksumError, Table, damage_of

PIECE_RECORDS: Final = 4_000
PIECE_BYTES: Final = 8 * 1024 * 1024
"""Unless a single record is larger."""
SPOILT_RECORDS: Final = 100
"""In a piece of which not all can be read."""
LISTED_PAGES: Final = 100
HEADS: Final = "CASE queue WHEN 0 THEN data END"
"""The data of a row, where it is no page."""

Columns = tuple[Any, ...]


class Asking(Protocol):
    """Who asks the server: in one session or another."""

    def __call__(self, question: str, *parameters: object) -> list[Columns]:
        """Return what the server gives for a question with parameters %s. Raises psycopg.Error, StoreError."""


class Reading:
    """Passes through tables; what of them is damaged goes into a list. Raises as who asks does."""

    def __init__(self, ask: Asking, damaged: list[Damage]) -> None:
        self._ask = ask
        self._damaged = damaged

    def records(self, table: Table, with_pages: bool = False) -> Iterator[Any]:
        """Return what is in order, by key. Of pages only what is known without their data, unless that is asked for."""
        data = HEADS if table is ROWS and not with_pages else "data"
        low = -1
        while True:
            found = self._piece(table, data, low)
            for columns in found:
                low = columns[0]
                record = self._judged(table, columns)
                if record is not None:
                    yield record
            if not found:
                return

    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue from a first sequence on, of at most so many bytes, but at least one."""
        found: list[MessageRow] = []
        behind = -1
        while True:
            listed = self._ask(
                "SELECT number, first, octet_length(data) FROM rows WHERE queue = %s AND queue > 0 "
                f"AND (first, number) > (%s, %s) ORDER BY first, number LIMIT {LISTED_PAGES}",
                queue, first, behind,
            )  # fmt: skip
            room = most - sum(len(page.data) for page in found)
            numbers: list[int] = []
            for number, begin, size in listed:
                if (found or numbers) and size > room:
                    break
                numbers.append(number)
                room -= size
                first, behind = begin, number
            for columns in self._read(ROWS, "data", numbers):
                page = self._judged(ROWS, columns)
                if page is not None:
                    found.append(page)
            if not numbers or (found and len(numbers) < LISTED_PAGES):
                return found

    def _piece(self, table: Table, data: str, low: int) -> list[Columns]:
        """Return the next records; empty if there are none."""
        key = table.key
        size = f"octet_length({data})" if "data" in table.columns else "0"
        counted = f"OVER (ORDER BY {key} ROWS UNBOUNDED PRECEDING)"
        try:
            return self._ask(
                f"SELECT {_columns(table, data)} FROM "
                f"(SELECT *, sum({size}) {counted} AS upto, row_number() {counted} AS at "
                f"FROM (SELECT * FROM {table.name} WHERE {key} > %s ORDER BY {key} LIMIT %s) AS next) AS counted "
                f"WHERE coalesce(upto, 0) <= %s OR at = 1 ORDER BY {key}",
                low, PIECE_RECORDS, PIECE_BYTES,
            )  # fmt: skip
        except psycopg.Error as error:
            if state_of(error) not in DAMAGED:
                raise
        found: list[Columns] = []
        while not found:
            keys = [
                number
                for (number,) in self._ask(
                    f"SELECT {key} FROM {table.name} WHERE {key} > %s ORDER BY {key} LIMIT %s", low, SPOILT_RECORDS
                )
            ]
            if not keys:
                break
            low = keys[-1]
            found = self._one_by_one(table, data, keys)
        return found

    def _read(self, table: Table, data: str, keys: Sequence[int]) -> list[Columns]:
        """Return the records with these keys, those that can be read."""
        if not keys:
            return []
        try:
            return self._ask(
                f"SELECT {_columns(table, data)} FROM {table.name} WHERE {table.key} = ANY(%s::bigint[]) "
                f"ORDER BY array_position(%s::bigint[], {table.key})",
                list(keys), list(keys),
            )  # fmt: skip
        except psycopg.Error as error:
            if state_of(error) not in DAMAGED:
                raise
        return self._one_by_one(table, data, keys)

    def _one_by_one(self, table: Table, data: str, keys: Sequence[int]) -> list[Columns]:
        found = []
        for key in keys:
            head = (key,)
            without = ", ".join(name for name in table.columns if name != "data")
            try:
                head = self._ask(f"SELECT {without} FROM {table.name} WHERE {table.key} = %s", key)[0]
                found += self._ask(f"SELECT {_columns(table, data)} FROM {table.name} WHERE {table.key} = %s", key)
            except psycopg.Error as error:
                if state_of(error) not in DAMAGED:
                    raise
                self._meet(_damage(table, head, str(error).strip().partition("\n")[0]))
        return found

    def _judged(self, table: Table, columns: Columns) -> Any:
        """Return the record; None if it is not what was written, which is remembered."""
        try:
            return table.read((PLACE, *columns[1:]) if table is METADATA_RECORDS else columns)
        except ChecksumError as why:
            self._meet(_damage(table, columns, str(why)))
            return None

    def _meet(self, damage: Damage) -> None:
        if damage not in self._damaged:  # A page may be asked for again.
            self._damaged.append(damage)


def _columns(table: Table, data: str) -> str:
    return ", ".join(data if name == "data" else name for name in table.columns)


def _damage(table: Table, columns: Columns, why: str) -> Damage:
    if len(columns) == 1:
        return Damage(f"{table.one} {columns[0]}", why, table=table.name)
    return damage_of(table, columns, why)
