"""Settlement records of rows, encoding in slices, and the report of lost messages of a damaged store.

A settlement record has the settled messages of a row, and the deliveries of the others.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.errors import StoreError
from penstock.flow.work import SHARE
from penstock.persistence.settlements import (
    CHANGE_WORK,
    SETTLED_A_UNIT,
    Loss,
    MessageAudit,
    RowSettlements,
    decode_settlement,
    encode_steps,
    summed_up,
)
from penstock.server.store_open import CheckReport, RepairReport, check_directory, repair_directory
from penstock.store.records import STALE, UNKNOWN, Damage
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE
from tests.persistence.test_recovery import House
from tests.profiles import examples, sample
from tests.support import at_once
from tests.support.damaged_store import Change, Life, cut, flip, make
from tests.support.durable_broker import Kept
from tests.support.memory_store import WALL, Shelf
from tests.support.turn_costs import turn_costs

Contents = dict[tuple[str, str], list[bytes]]


class Patient:
    """A store that is damaged again and again, each time beginning with the file as it was written."""

    def __init__(self, whole: Path, written: Contents) -> None:
        self.damaged = whole.parent / "damaged"
        self.target = whole.parent / "saved"
        self.written = written
        self.octets = (whole / FILE).read_bytes()
        self.pages = len(self.octets) // PAGE_SIZE
        self.hurt = 0
        """How many damages cost messages."""
        self.exact = 0
        """Of how many of those everything was told exactly."""

    def suffer(self, *changes: Change) -> RepairReport:
        octets = bytearray(self.octets)
        for change in changes:
            change(octets)
        for folder in (self.damaged, self.target):
            shutil.rmtree(folder, ignore_errors=True)
        self.damaged.mkdir()
        (self.damaged / FILE).write_bytes(octets)
        mended = repair_directory(self.damaged, self.target)
        left = {body for bodies in self._left().values() for body in bodies}
        lost = {number: len(set(bodies) - left) for number, bodies in enumerate(self.written.values(), 1)}
        self._judge(lost, mended.losses)
        try:
            found = check_directory(self.damaged)
        except StoreError:
            pass  # It cannot even be opened, and that is told.
        else:
            assert_told(lost, found)
        return mended

    def _left(self) -> Contents:
        """Return what is in the queues of the store that was saved; a broker of it has nothing to say about counts."""
        life = Life(self.target)
        assert life.account.losses([]) == []
        try:
            return life.drain()
        finally:
            life.close()

    def _judge(self, lost: dict[int, int], losses: list[Loss]) -> None:
        told = {loss.number: loss for loss in losses}
        for number, count in lost.items():
            loss = told.get(number, told.get(0, Loss(number, "", 0, 0, UNKNOWN, 0)))
            assert loss.most == UNKNOWN or count <= loss.most, (loss, count)
            assert loss.number == 0 or loss.least <= count, (loss, count)
        if any(lost.values()):
            self.hurt += 1
            self.exact += all(n in told and told[n].least == told[n].most for n, count in lost.items() if count)

    def mostly_exact(self, changes: Sequence[Change]) -> None:
        """Of nearly all damages that cost messages it is told exactly which and how many."""
        hurt, exact = self.hurt, self.exact
        for change in sample(changes):
            self.suffer(change)
        hurt, exact = self.hurt - hurt, self.exact - exact
        assert hurt > 5
        assert exact >= hurt * 0.7, (exact, hurt)


def assert_told(lost: dict[int, int], found: CheckReport) -> None:
    """What was lost when the rest was saved could be known before, though it may have looked worse."""
    told = {loss.number: loss for loss in found.losses}
    for number, count in lost.items():
        if count:
            loss = told.get(number, told.get(0))
            assert loss.most == UNKNOWN or count <= loss.most


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    whole = tmp_path_factory.mktemp("told") / "whole"
    return Patient(whole, make(whole))


def empty(page: int) -> Change:
    def change(octets: bytearray) -> None:
        octets[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = bytes(PAGE_SIZE)

    return change


@pytest.mark.once
def test_bit_anywhere(patient: Patient) -> None:
    chance = random.Random(5)
    places = [page * PAGE_SIZE + chance.randrange(PAGE_SIZE) for page in range(patient.pages)]
    patient.mostly_exact([flip(at, chance.randrange(8)) for at in places])


@pytest.mark.once
def test_bit_at_the_beginning_of_any_page(patient: Patient) -> None:
    chance = random.Random(6)
    patient.mostly_exact([flip(p * PAGE_SIZE + chance.randrange(30), p % 8) for p in range(patient.pages)])


@pytest.mark.once
def test_page_of_zeros(patient: Patient) -> None:
    patient.mostly_exact([empty(page) for page in range(patient.pages)])


@pytest.mark.once
def test_file_that_was_cut_off(patient: Patient) -> None:
    patient.mostly_exact([cut(size) for size in range(6 * PAGE_SIZE, len(patient.octets), 3 * PAGE_SIZE // 2)])


@pytest.mark.once
def test_damage_in_several_places(patient: Patient) -> None:
    chance = random.Random(7)
    for _ in range(examples(25)):
        patient.suffer(*[empty(chance.randrange(patient.pages)) for _ in range(3)])
        patient.suffer(*[flip(chance.randrange(len(patient.octets)), 3) for _ in range(20)])


def damaged_row(messages: int = 10, queue: int = 0) -> Damage:
    return Damage("row 7", "its checksum is wrong", queue, messages, "rows")


NOTE = Damage("note 3", "its checksum is wrong", table="notes")
POSITION = Damage("position 3", "its checksum is wrong", table="positions")


@pytest.mark.parametrize(
    ("expected", "found", "damaged", "said"),
    [
        (30, 20, [damaged_row()], "queue 'q' in vhost '/' has lost 10 of 30 messages"),
        (1, 0, [damaged_row()], "queue 'q' in vhost '/' has lost 1 of 1 message"),
        (30, 20, [damaged_row(), NOTE], "queue 'q' in vhost '/' has lost 10 of 30 messages"),
        (30, 25, [damaged_row(), NOTE], "queue 'q' in vhost '/' has lost at least 5 and at most 10 of 30 messages"),
        (30, 25, [damaged_row(0), NOTE], "queue 'q' in vhost '/' has lost at least 5 and at most 30 of 30 messages"),
        (30, 35, [NOTE], "queue 'q' in vhost '/' gets 5 messages back that had been settled"),
        (UNKNOWN, 20, [damaged_row(), POSITION], "queue 'q' in vhost '/' has lost at least 0 and at most 10 messages"),
        (
            UNKNOWN,
            20,
            [damaged_row(0), POSITION],
            "queue 'q' in vhost '/' has lost an unknown number of messages",
        ),
        (30, 20, [damaged_row(), Damage("positions", STALE, table="positions")],
         "queue 'q' in vhost '/' has lost at least 0 and at most 10 messages"),
        (30, 30, [damaged_row(10, 2)], "no message is lost"),
        (UNKNOWN, 20, [POSITION], "no message is lost"),
        (UNKNOWN, 20, [damaged_row(10, 2), POSITION], "no message is lost"),
    ],
)  # fmt: skip
def test_lost_messages_of_a_queue_are_described(expected: int, found: int, damaged: list[Damage], said: str) -> None:
    account = MessageAudit()
    account.name(1, "/", "q")
    account.expect(1, expected)
    account.find(1, found)
    assert summed_up(account.losses(damaged)) == said


def test_queues_with_losses_are_named_up_to_a_bound() -> None:
    account = MessageAudit()
    for number in range(1, 9):
        account.name(number, "/", f"q{number}")
        account.expect(number, 3)
    said = summed_up(account.losses([damaged_row()]))
    assert said.startswith("queue 'q1' in vhost '/' has lost 3 of 3 messages, queue 'q2' ")
    assert said.endswith(", 3 more of them have lost messages or get some back")


def test_queue_that_lost_its_declaration_comes_back_with_its_messages(patient: Patient) -> None:
    """By a name that says its number; test_counting.py has the one that a binding knows."""
    things = patient.octets.index(b'{"vhost":"/","name":"orders"')
    mended = patient.suffer(flip(things + 20, 1))
    assert mended.declared == ["queue 'saved-1' in vhost '/'"]
    life = Life(patient.target)
    assert int(life.queues()["/", "saved-1"].messages) == len(patient.written["/", "orders"])
    life.close()


def settled(*tags: int) -> tuple[Shelf, dict[int, RowSettlements]]:
    """Store ten messages in a row, take them, and settle some; return what the settlement records say of each row."""
    shelf = Shelf()
    house = House(shelf)
    route = house.route("", "plain", 0, True)
    for number in range(10):
        house.producer.publish(route, b"%d" % number, 300)
    shelf.write(house.journal)
    for _ in range(10):
        house.session.get(house.queues["plain"], False, 100.0)
    for tag in tags:
        house.session.unsettled.acknowledge(tag, False, 100.0)
    shelf.write(house.journal)
    found: dict[int, RowSettlements] = {}
    for number, data in shelf.notes.items():
        decode_settlement(number, data, found)
    return shelf, found


def test_settlement_has_neighbours_in_one_range_and_others_in_their_own() -> None:
    _, found = settled(2, 3, 4, 8)
    (row,) = found.values()
    ranges = zip(row.settled[::2], row.settled[1::2], strict=True)
    assert [at for first, count in ranges for at in range(first, first + count)] == [1, 2, 3, 7]
    assert len(row.settled) == 2 * 2


def test_settlement_of_all_messages_of_a_row_leaves_neither_row_nor_record() -> None:
    shelf, found = settled(*range(1, 11))
    assert found == {}
    assert not shelf.rows
    assert not shelf.notes


def test_settlement_that_is_cut_short_or_of_another_format_is_refused_by_its_number() -> None:
    shelf, _ = settled(2)
    (data,) = shelf.notes.values()
    for end in range(5, len(data)):
        with pytest.raises(StoreError, match="settlement record 9 of the store cannot be read: it is cut short"):
            decode_settlement(9, data[:end], {})
    with pytest.raises(StoreError, match="settlement record 9 of the store has format 77"):
        decode_settlement(9, b"\x4d" + data[1:], {})


def test_settlement_names_the_positions_by_their_first_and_their_count() -> None:
    _, found = settled(1, 10)
    (row,) = found.values()
    assert row.settled == [0, 1, 9, 1]


@pytest.mark.once
def test_settlements_and_requeues_are_encoded_a_share_a_turn() -> None:
    house, count, chance = Kept(), 30_000, random.Random(7)
    producer, queue = house.producer("p"), house.vhost.queues["a"]
    rounds = count // 3_000
    for _ in range(rounds):
        for _ in range(3_000):
            house.store(producer, "a", 300)
        house.write()
    for _ in range(count):
        house.session.get(queue, False, house.broker.now)
    tags = list(range(1, count + 1))
    chance.shuffle(tags)
    accepted, back = set(tags[: count // 2]), tags[count // 2 : count - 100]
    for tag in accepted:
        house.session.unsettled.acknowledge(tag, False, house.broker.now)
    for tag in back:
        house.session.unsettled.settle_tag(tag, False, Outcome.FAILED, house.broker.now)
    turns, commit = turn_costs(
        house.broker.work, encode_steps(house.journal, house.journal.take(), WALL, house.broker.work)
    )
    assert len(turns) > (count - 100) // SETTLED_A_UNIT // SHARE
    assert max(turns) <= SHARE + 3_000 // SETTLED_A_UNIT
    (record,) = commit.settlements
    found: dict[int, RowSettlements] = {}
    decode_settlement(record.number, record.data, found)
    first = {number: at * 3_000 for at, number in enumerate(sorted(found))}
    places = {
        first[number] + place + 1
        for number, row in found.items()
        for begin, length in zip(row.settled[::2], row.settled[1::2], strict=True)
        for place in range(begin, begin + length)
    }
    assert places == accepted
    assert {first[number] + place + 1 for number, row in found.items() for place in row.redelivered} == set(back)


MANY = 3_000


def declared(**arguments: object) -> Kept:
    """Return a broker with durable queues of which the store does not know."""
    house = Kept()
    for number in range(MANY):
        house.vhost.declare_queue(f"q{number}", dict(arguments), True, False, None, None)
    return house


def costs(house: Kept) -> tuple[list[int], int]:
    """Put together all that there is, a share a turn; return the units of each turn, and how many things came."""
    work = house.broker.work
    turns, commit = turn_costs(work, encode_steps(house.journal, house.journal.take(), WALL, work))
    return turns, len(commit.metadata)


def test_thousands_of_declarations_are_put_together_a_share_a_turn() -> None:
    house = declared()
    turns, things = costs(house)
    assert things >= MANY
    assert len(turns) >= MANY * CHANGE_WORK // SHARE
    assert max(turns) <= SHARE + 2 * CHANGE_WORK


@pytest.mark.once
def test_long_arguments_are_counted_by_their_bytes() -> None:
    short, long = declared(), declared(**{"x-note": "n" * 10_000})
    assert sum(costs(long)[0]) > 5 * sum(costs(short)[0])


@pytest.mark.once
def test_encoding_in_slices_equals_encoding_at_once() -> None:
    one, other = declared(), declared()
    steps = encode_steps(one.journal, one.journal.take(), WALL, one.broker.work)
    one.broker.work.limit = 0
    slices = 1
    while True:
        try:
            next(steps)
            slices += 1
        except StopIteration as end:
            in_slices = end.value
            break
    whole = at_once.encode(other.journal, other.journal.take(), WALL)
    assert slices > MANY
    assert in_slices.metadata == whole.metadata
    assert in_slices.positions == whole.positions


def test_queue_deleted_while_it_is_encoded_is_removed_in_the_next_transaction() -> None:
    house = declared()
    steps = encode_steps(house.journal, house.journal.take(), WALL, house.broker.work)
    house.broker.work.limit = house.broker.work.done + SHARE
    next(steps)
    house.broker.delete_queue(house.vhost.queues[f"q{MANY - 1}"])
    house.broker.work.limit = 1 << 62
    try:
        while True:
            next(steps)
    except StopIteration as end:
        first = end.value
    house.journal.written()
    then = at_once.encode(house.journal, house.journal.take(), WALL)
    assert [record.data is None for record in first.metadata if record.key.endswith(f"q{MANY - 1}")] == [False]
    assert [record.data is None for record in then.metadata if record.key.endswith(f"q{MANY - 1}")] == [True]
