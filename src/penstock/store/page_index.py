"""Index of a queue's pages: finds pages by sequence number and reads each by its row number."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from penstock.store.faults import damage_in
from penstock.store.reading import PLACE, ReadPlace
from penstock.store.records import Damage, MessageRow
from penstock.store.tables import ROWS, ChecksumError, damage_of, filled, length_of, read_row

LISTED: Final = (
    "SELECT number, first FROM rows INDEXED BY pages "
    "WHERE queue = ? AND queue > 0 AND first >= ? ORDER BY first, number"
)
LISTED_WITH: Final = (
    "SELECT number, first FROM rows INDEXED BY pages WHERE queue = ? AND queue > 0 AND first >= ifnull("
    "(SELECT max(first) FROM rows INDEXED BY pages WHERE queue = ? AND queue > 0 AND first <= ?), 0) "
    "ORDER BY first, number LIMIT ?"
)
HEAD: Final = (
    f"SELECT number, queue, first, messages, size, crc, seal, {PLACE}, length(data) FROM rows WHERE number = ?"
)
DATA: Final = "SELECT data FROM rows WHERE number = ?"
INDEXED: Final = (
    "SELECT count(*), ifnull(sum(number), 0) + ifnull(sum(first), 0) FROM rows INDEXED BY pages WHERE queue > 0"
)


class PageIndex:
    """Lookups of pages; damaged pages are added to `damaged`, each once."""

    def __init__(self, connection: sqlite3.Connection, damaged: list[Damage], read_place: ReadPlace) -> None:
        self._connection = connection
        self.damaged = damaged
        self._read_place = read_place

    def find(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages from a sequence on, up to a number of bytes, but at least one. Raises sqlite3.Error."""
        rows: list[MessageRow] = []
        room = most
        try:
            for number, begin in self._connection.execute(LISTED, (queue, first)):
                head = self._read(queue, number, HEAD)
                if head is None:
                    continue
                size = head[8] if head[7] is None else length_of(head[7])
                if rows and type(size) is int and size > room:
                    break
                page = self._page(head, queue, begin)
                if page is not None:
                    rows.append(page)
                    room -= len(page.data)
        except sqlite3.DatabaseError as error:
            self._add(Damage("the index of pages", damage_in(error), queue))
        return rows

    def heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """Return pages without their data, from the page that may contain a sequence on. Raises sqlite3.Error."""
        rows: list[MessageRow] = []
        try:
            for number, begin in self._connection.execute(LISTED_WITH, (queue, queue, sequence, most)):
                head = self._read(queue, number, HEAD)
                page = None if head is None else self._judged(head[:8], queue, begin)
                if page is not None:
                    rows.append(page)
        except sqlite3.DatabaseError as error:
            self._add(Damage("the index of pages", damage_in(error), queue))
        return rows

    def mend(self, pages: int, total: int) -> None:
        """Rebuild the index unless it has this number of pages and this sum of numbers and firsts. Raises as `find`."""
        damaged = None
        try:
            damaged = self._connection.execute(INDEXED).fetchone()
            if damaged != (pages, total):
                self._connection.execute("REINDEX pages")
        except sqlite3.DatabaseError as error:
            self._add(Damage("the index of pages", damage_in(error)))

    def _read(self, queue: int, number: int, what: str) -> tuple[Any, ...] | None:
        """Return columns of a page; None if they cannot be read because of damage."""
        why = "only the index of pages knows it"
        try:
            row: tuple[Any, ...] | None = self._connection.execute(what, (number,)).fetchone()
            if row is not None:
                return row
        except sqlite3.DatabaseError as error:
            why = damage_in(error)
        self._add(Damage(f"page {number} of queue number {queue}", why, queue, table=ROWS.name))
        return None

    def _page(self, head: tuple[Any, ...], queue: int, first: int) -> MessageRow | None:
        if head[7] is not None:
            return self._judged(head[:8], queue, first, with_data=True)
        data = self._read(queue, head[0], DATA)
        return None if data is None else self._judged((*head[:7], *data), queue, first)

    def _judged(self, columns: tuple[Any, ...], queue: int, first: int, with_data: bool = False) -> MessageRow | None:
        """Return the page of these columns, with the data of its place if wanted; None if the page is damaged."""
        try:
            row = read_row(columns)
            if with_data:
                row = filled(row, columns, self._read_place)
            if (row.queue, row.first) != (queue, first):
                raise ChecksumError("it is not what the index of pages says")
        except ChecksumError as why:
            self._add(damage_of(ROWS, columns, str(why))._replace(queue=queue))
            return None
        return row

    def _add(self, damage: Damage) -> None:
        if damage not in self.damaged:  # The same page may be read again.
            self.damaged.append(damage)
