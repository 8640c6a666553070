"""Reader of PostgreSQL tables in pieces, their disk usage, and the vacuum that makes deleted space usable again.

Theory of operation. A piece begins after the highest key of the previous one and ends at a number of records or bytes.
A server-side cursor would need a transaction for the whole pass and would be lost with the session. With pieces, other
transactions may write meanwhile, and a pass survives a lost session.

If the server finds damage in a piece, each record of that piece is read separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import psycopg

from penstock.store.postgres.schema import PLACE, Change
from penstock.store.postgres.session import DAMAGED, DatabaseAddress, Session, SessionSockets, state_of
from penstock.store.records import Damage, MessageRow, piece_key
from penstock.store.store import Usage
from penstock.store.tables import METADATA_RECORDS, PIECES, ROWS, ChecksumError, Table, damage_of

PIECE_RECORDS: Final = 4_000
PIECE_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of a piece, unless one record is larger."""
SPOILT_RECORDS: Final = 100
"""Most records of a piece that contains unreadable records."""
LISTED_PAGES: Final = 100

Columns = tuple[Any, ...]


class Asking(Protocol):
    """Query function: runs a query in a session."""

    def __call__(self, question: str, *parameters: object) -> list[Columns]:
        """Return the result of a query with parameters %s. Raises psycopg.Error, StoreError."""


class Reading:
    """Passes through tables; damaged records are collected in a list. Raises what the query function raises."""

    def __init__(self, ask: Asking, damaged: list[Damage]) -> None:
        self._query = ask
        self._damaged = damaged

    def records(self, table: Table, with_data: bool = False) -> Iterator[Any]:
        """Passes through tables; damaged records are collected in a list.

        The data of pages and pieces is left out unless requested.
        """
        data = "data" if with_data else table.head
        low = -1
        while True:
            rows = self._piece(table, data, low)
            for columns in rows:
                low = columns[0]
                record = self._judged(table, columns)
                if record is not None:
                    yield record
            if not rows:
                return

    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue from a sequence on, up to a number of bytes, but at least one."""
        rows: list[MessageRow] = []
        behind = -1
        while True:
            listed = self._query(
                "SELECT number, first, octet_length(data) FROM rows WHERE queue = %s AND queue > 0 "
                f"AND (first, number) > (%s, %s) ORDER BY first, number LIMIT {LISTED_PAGES}",
                queue, first, behind,
            )  # fmt: skip
            room = most - sum(len(page.data) for page in rows)
            numbers: list[int] = []
            for number, begin, size in listed:
                if (rows or numbers) and size > room:
                    break
                numbers.append(number)
                room -= size
                first, behind = begin, number
            for columns in self._read(ROWS, "data", numbers):
                page = self._judged(ROWS, columns)
                if page is not None:
                    rows.append(page)
            if not numbers or (rows and len(numbers) < LISTED_PAGES):
                return rows

    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """Return pages of a queue without their data, from the page that may contain a sequence on."""
        listed = self._query(
            "SELECT number FROM rows WHERE queue = %s AND queue > 0 AND first >= coalesce("
            "(SELECT max(first) FROM rows WHERE queue = %s AND queue > 0 AND first <= %s), 0) "
            "ORDER BY first, number LIMIT %s",
            queue, queue, sequence, most,
        )  # fmt: skip
        heads = [self._judged(ROWS, columns) for columns in self._read(ROWS, "NULL", [number for (number,) in listed])]
        return [page for page in heads if page is not None]

    def piece(self, body: int, at: int) -> bytes | None:
        """Return the data of a piece; None if it is missing or damaged."""
        key = piece_key(body, at)
        met = len(self._damaged)
        for columns in self._read(PIECES, "data", [key]):
            piece = self._judged(PIECES, columns)
            return None if piece is None else bytes(piece.data)
        if len(self._damaged) == met:
            self._meet(damage_of(PIECES, (key,), "it is missing"))
        return None

    def _piece(self, table: Table, data: str, low: int) -> list[Columns]:
        """Return the next records; empty at the end."""
        key = table.key
        size = f"octet_length({data})" if "data" in table.columns else "0"
        counted = f"OVER (ORDER BY {key} ROWS UNBOUNDED PRECEDING)"
        try:
            return self._query(
                f"SELECT {_columns(table, data)} FROM "
                f"(SELECT *, sum({size}) {counted} AS upto, row_number() {counted} AS at "
                f"FROM (SELECT * FROM {table.name} WHERE {key} > %s ORDER BY {key} LIMIT %s) AS next) AS counted "
                f"WHERE coalesce(upto, 0) <= %s OR at = 1 ORDER BY {key}",
                low, PIECE_RECORDS, PIECE_BYTES,
            )  # fmt: skip
        except psycopg.Error as error:
            _damage_in(error)
        rows: list[Columns] = []
        while not rows:
            keys = [
                number
                for (number,) in self._query(
                    f"SELECT {key} FROM {table.name} WHERE {key} > %s ORDER BY {key} LIMIT %s", low, SPOILT_RECORDS
                )
            ]
            if not keys:
                break
            low = keys[-1]
            rows = self._one_by_one(table, data, keys)
        return rows

    def _read(self, table: Table, data: str, keys: Sequence[int]) -> list[Columns]:
        """Return the readable records with these keys."""
        if not keys:
            return []
        try:
            return self._query(
                f"SELECT {_columns(table, data)} FROM {table.name} WHERE {table.key} = ANY(%s::bigint[]) "
                f"ORDER BY array_position(%s::bigint[], {table.key})",
                list(keys), list(keys),
            )  # fmt: skip
        except psycopg.Error as error:
            _damage_in(error)
        return self._one_by_one(table, data, keys)

    def _one_by_one(self, table: Table, data: str, keys: Sequence[int]) -> list[Columns]:
        rows = []
        for key in keys:
            head = (key,)
            without = ", ".join(name for name in table.columns if name != "data")
            try:
                head = self._query(f"SELECT {without} FROM {table.name} WHERE {table.key} = %s", key)[0]
                rows += self._query(f"SELECT {_columns(table, data)} FROM {table.name} WHERE {table.key} = %s", key)
            except psycopg.Error as error:
                self._meet(_damage(table, head, _damage_in(error)))
        return rows

    def _judged(self, table: Table, columns: Columns) -> Any:
        """Return the record; None if the checksum is wrong, which is recorded as damage."""
        try:
            return table.read((PLACE, *columns[1:]) if table is METADATA_RECORDS else columns)
        except ChecksumError as why:
            self._meet(_damage(table, columns, str(why)))
            return None

    def _meet(self, damage: Damage) -> None:
        if damage not in self._damaged:  # The same page may be read again.
            self._damaged.append(damage)


def _columns(table: Table, data: str) -> str:
    return ", ".join(data if name == "data" else name for name in table.columns)


def _damage_in(error: psycopg.Error) -> str:
    """Return the text of an error that says that records are damaged; raise any other error again."""
    if state_of(error) not in DAMAGED:
        raise error
    return str(error).strip().partition("\n")[0]


def _damage(table: Table, columns: Columns, why: str) -> Damage:
    if len(columns) == 1 and table is not PIECES:
        return Damage(f"{table.one} {columns[0]}", why, table=table.name)
    return damage_of(table, columns, why)


DELETED_LEAST: Final = 16 * 1024 * 1024
DELETED_SHARE: Final = 4
"""Deleted data that starts a vacuum, as a divisor of the live data."""
STEP_S: Final = 0.05
"""Most seconds that one housekeeping step waits for the server."""


class Space:
    """Byte counts of the tables of rows and pieces. Its methods raise psycopg.Error."""

    def __init__(self, address: DatabaseAddress, lines: SessionSockets) -> None:
        self.address = address
        self._lines = lines
        self.live = 0
        self.deleted = 0
        """Bytes deleted and not yet vacuumed."""
        self._vacuums = 0
        """Number of vacuums of the table at the last check."""
        self._vacuum: Vacuum | None = None

    def count(self, session: Session) -> None:
        """Read the present counts, once."""
        ((self.live,),) = session.ask(
            "SELECT coalesce(sum(size), 0)::bigint FROM "
            "(SELECT octet_length(data) AS size FROM rows UNION ALL SELECT size FROM pieces) AS sizes"
        )
        self.deleted = 0
        self._vacuums = _vacuums(session)

    def changed(self, change: Change) -> None:
        """Add the changes of a commit."""
        self.live += change.written - change.replaced - change.deleted
        self.deleted += change.replaced + change.deleted

    def measure(self, session: Session) -> Usage:
        """Return the size of tables and indexes, and the part that cannot be reused."""
        ((taken, other),) = session.ask(
            "SELECT sum(pg_total_relation_size(oid))::bigint, "
            "coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relname NOT IN ('rows', 'pieces')), 0)::bigint "
            "FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND relkind = 'r'",
            self.address.schema,
        )
        self._look(session)
        return Usage(min(taken, self.live + self.deleted + other), taken, None)

    def reclaim(self, session: Session) -> bool:
        """Vacuum deleted space if worthwhile; return whether a vacuum is running."""
        if self._vacuum is None:
            if self.deleted <= max(DELETED_LEAST, self.live // DELETED_SHARE):
                return False
            self._look(session)
            if self.deleted <= max(DELETED_LEAST, self.live // DELETED_SHARE):
                return False
            self._vacuum = Vacuum(Session(self.address, self._lines), self.deleted)
        if self._vacuum.goes_on(STEP_S):
            return True
        self.deleted -= self._vacuum.deleted
        self._vacuums = _vacuums(session)
        self._vacuum = None
        return False

    def close(self) -> None:
        """Close the session of a running vacuum, which the server continues."""
        if self._vacuum is not None:
            self._vacuum.session.abandon()
            self._vacuum = None

    def _look(self, session: Session) -> None:
        """Check whether autovacuum ran meanwhile."""
        vacuums = _vacuums(session)
        if vacuums != self._vacuums:
            self._vacuums = vacuums
            self.deleted = 0


class Vacuum:
    """Running VACUUM on the server."""

    def __init__(self, session: Session, deleted: int) -> None:
        self.session = session
        self.deleted = deleted
        """Bytes deleted before the vacuum began."""
        try:
            session.send(b"VACUUM rows, pieces")
        except BaseException:
            session.abandon()
            raise

    def goes_on(self, patience_s: float) -> bool:
        """Wait for the end of the vacuum for a number of seconds; return whether it still runs. Errors are left to
        autovacuum.
        """
        try:
            if not self.session.has_done(patience_s):
                return True
        except psycopg.Error:
            pass
        self.session.abandon()
        return False


def _vacuums(session: Session) -> int:
    """Return the number of vacuums of the tables that hold the data of rows and pieces (TOAST)."""
    row = session.ask(
        "SELECT coalesce(sum(vacuum_count + autovacuum_count), 0)::bigint FROM pg_stat_all_tables WHERE relid IN "
        "(SELECT reltoastrelid FROM pg_class WHERE oid IN ('rows'::regclass, 'pieces'::regclass))"
    )
    return int(row[0][0]) if row else 0
