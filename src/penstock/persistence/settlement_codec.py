"""Codec of settlement records: settled and redelivered messages of rows in the store."""

from __future__ import annotations

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from penstock.core.journal.group import JournalGroup, SettledRange
from penstock.core.journal.group import SettlementRecord as Reference
from penstock.core.journal.journal import INDEX_BITS, Journal
from penstock.core.message import StoredMessage
from penstock.errors import StoreError
from penstock.persistence.row_encoder import FORMAT


def encode_settlement(journal: Journal, group: JournalGroup) -> bytes:
    """Encode a group's settlements in rows that are not empty; return b"" if there are none."""
    ranges = _settled(journal, group.settled)
    returned = _returned(journal, group.returned)
    numbers = list(ranges)
    numbers += [number for number in returned if number not in ranges]
    if not numbers:
        return b""
    reference = Reference(group.number)
    out = BytesWriter()
    out.append(FORMAT)
    write_i32_be(out, i32(len(numbers)))
    for number in numbers:
        journal.add_settlement_record(reference, number)
        write_i64_be(out, number)
        found = ranges.get(number, [])
        write_i32_be(out, i32(len(found) // 2))
        for place in found:
            write_i32_be(out, i32(place))
        back = returned.get(number, [])
        write_i32_be(out, i32(len(back)))
        for message in back:
            write_i32_be(out, i32(message.index))
            write_i16_be(out, message.past)
    return out.getvalue()


def _settled(journal: Journal, settled: list[SettledRange]) -> dict[int, list[int]]:
    """Return the settled positions of each remaining row: first, count, first, count ..."""
    found: dict[int, list[int]] = {}
    ranges: list[int] = []
    row, end = 0, 0
    settled.sort(key=_where)
    for each in settled:
        number, place, count = int(each.row), int(each.index), int(each.count)
        if number not in journal.rows:
            continue
        if number != row:
            ranges = found[number] = []
        if number == row and place == end:
            ranges[-1] += count
        else:
            ranges.append(place)
            ranges.append(count)
        row, end = number, place + count
    return found


def _where(settled: SettledRange) -> tuple[int, int]:
    return int(settled.row), int(settled.index)


def _returned(journal: Journal, returned: set[int]) -> dict[int, list[StoredMessage]]:
    """Return the redelivered messages of each remaining row that are still unsettled."""
    found: dict[int, list[StoredMessage]] = {}
    mask = (1 << INDEX_BITS) - 1
    for code in sorted(returned):
        number = code >> INDEX_BITS
        group = journal.rows.get(number)
        message = None if group is None or group.live == 0 else group.messages[code & mask]
        if message is not None:
            found.setdefault(number, []).append(message)
    return found


class RowSettlements:
    """Settlements and redeliveries of one row's messages."""

    __slots__ = ("settled", "redelivered", "references")

    def __init__(self) -> None:
        self.settled: list[int] = []
        """Settled positions: first, count, first, count ..."""
        self.redelivered: dict[int, int] = {}
        """Earlier deliveries (`Message.past`) by position in the row."""
        self.references: list[Reference] = []

    def apply(self, group: JournalGroup) -> None:
        """Remove settled messages from a group, and set the earlier deliveries of the others."""
        ranges = self.settled
        for at in range(0, len(ranges), 2):
            for place in range(ranges[at], ranges[at] + ranges[at + 1]):
                message = group.messages[place]
                if message is not None:
                    message.group = None
                    group.messages[place] = None
                    group.live -= 1
                    group.bytes -= message.charge
        for place, past in self.redelivered.items():
            left = group.messages[place]
            if left is not None:
                left.past = i16(past)


def decode_settlement(number: int, data: bytes, fates: dict[int, RowSettlements]) -> None:
    """Decode a settlement record and add it to those of its rows. Raises StoreError if it is malformed."""
    try:
        _decode(Reference(number), data, fates)
    except (IndexError, ValueError):
        raise StoreError(f"settlement record {number} of the store cannot be read: it is cut short") from None


def _decode(reference: Reference, data: bytes, fates: dict[int, RowSettlements]) -> None:
    if data[0] != FORMAT:
        raise StoreError(
            f"settlement record {reference.number} of the store has format {data[0]}, but this version reads {FORMAT}"
        )
    rows: i64 = i64(read_i32_be(data, 1))
    pos: i64 = 5
    while rows > 0:
        rows -= 1
        number = int(read_i64_be(data, pos))
        fate = fates.get(number)
        if fate is None:
            fate = RowSettlements()
            fates[number] = fate
        fate.references.append(reference)
        ranges: i64 = i64(read_i32_be(data, pos + 8))
        pos += 12
        while ranges > 0:
            ranges -= 1
            fate.settled.append(int(read_i32_be(data, pos)))
            fate.settled.append(int(read_i32_be(data, pos + 4)))
            pos += 8
        back: i64 = i64(read_i32_be(data, pos))
        pos += 4
        while back > 0:
            back -= 1
            fate.redelivered[int(read_i32_be(data, pos))] = int(read_i16_be(data, pos + 4))
            pos += 6
