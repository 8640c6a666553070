"""Spells logged one by one and spells summed: together they are complete."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.gate import Gate
from penstock.management.gate_lines import LASTING_S, SUBJECTS_KEPT, SUMS_KEPT, TOLD_A_SECOND, Spell, Spells
from tests.support.broker_fixture import House

AT_ONCE = 2
KEY = (1, 2)


def gate(name: str = "a") -> Gate:
    return Gate("queue", name, [])


def test_rare_spells_of_a_subject_are_logged_at_once() -> None:
    spells = Spells(AT_ONCE)
    told = []
    for at in (0.0, 0.2, 0.4):
        told.append((spells.begin(KEY, Spell(gate(), at, None)), spells.end(KEY, at + 0.05)))
    assert told == [(True, True), (True, True), (False, False)]
    (summed,) = spells.tick()
    assert (summed.count, round(summed.total_s, 6), summed.first.since) == (1, 0.05, 0.4)
    assert spells.tick() == []


def test_spells_of_a_subject_with_many_in_the_last_second_are_not_logged_at_once() -> None:
    spells = Spells(AT_ONCE)
    for at in (0.0, 0.2):
        spells.begin(KEY, Spell(gate(), at, None))
        spells.end(KEY, at + 0.05)
    spells.tick()
    assert not spells.begin(KEY, Spell(gate(), 1.0, None))
    assert not spells.end(KEY, 1.01)
    for _ in range(2):
        spells.tick()
    assert spells.begin(KEY, Spell(gate(), 3.0, None))


def test_spell_that_lasts_is_logged_with_the_time_of_its_beginning() -> None:
    spells = Spells(0)
    assert not spells.begin(KEY, Spell(gate(), 5.0, None))
    assert spells.lasting(5.0 + LASTING_S / 2) == []
    (lasting,) = spells.lasting(5.0 + LASTING_S)
    assert lasting.since == 5.0
    assert spells.lasting(9.0) == []
    assert spells.end(KEY, 9.0), "the end of a spell that was told is told"
    assert spells.tick() == []


def test_spells_logged_in_a_second_are_bounded_and_the_rest_follow() -> None:
    spells = Spells(AT_ONCE)
    told = [spells.begin((number, 0), Spell(gate(), 0.0, None)) for number in range(TOLD_A_SECOND + 3)]
    assert told.count(True) == TOLD_A_SECOND
    assert spells.lasting(1.0) == []
    spells.tick()
    assert len(spells.lasting(1.1)) == 3


def test_sums_of_producers_are_bounded_with_one_sum_per_gate_for_the_rest() -> None:
    house, spells, here = House(), Spells(0), gate()
    producers = [house.producer(f"p{number}") for number in range(SUMS_KEPT + 5)]
    for producer in producers:
        key = (id(producer), id(here))
        spells.begin(key, Spell(here, 0.0, producer))
        spells.end(key, 0.01)
    sums = spells.tick()
    assert len(sums) == SUMS_KEPT + 1
    assert (sums[-1].producer, sums[-1].count) == (None, 5)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 0.4)), max_size=60))
def test_spells_logged_and_spells_summed_add_up_to_the_whole_time(steps: list[tuple[int, float]]) -> None:
    """Subjects begin and end in any order: told beginnings and ends, with the sums, give every spell and its time."""
    spells, gates = Spells(AT_ONCE), [gate(str(number)) for number in range(4)]
    now, count, total, told = 0.0, 0, 0.0, 0.0
    open_since: dict[int, float] = {}
    for number, pause in [*steps, *[(number, 0.0) for number in range(4)]]:
        second = int(now)
        now += pause
        for lasting in spells.lasting(now):
            told -= lasting.since
            count += 1
        if int(now) > second:
            for summed in spells.tick():
                told += summed.total_s
                count += summed.count
        key = (number, 0)
        if number in open_since:
            total += now - open_since.pop(number)
            if spells.end(key, now):
                told += now
        else:
            open_since[number] = now
            if spells.begin(key, Spell(gates[number], now, None)):
                told -= now
                count += 1
    for number, since in open_since.items():
        total += now - since
        if spells.end((number, 0), now):
            told += now
    for summed in spells.tick():
        told += summed.total_s
        count += summed.count
    begun = (len(steps) + 4 + len(open_since)) // 2
    assert count == begun
    assert abs(told - total) < 1e-6


def test_new_subject_is_not_confused_with_a_deleted_subject() -> None:
    spells = Spells(1)
    seen = set()
    for _ in range(200):
        subject = gate()
        key = (id(subject), 0)
        assert key not in seen
        seen.add(key)
        assert spells.begin(key, Spell(subject, 0.0, None))
        assert spells.end(key, 0.01)


def test_subjects_whose_spells_are_counted_are_bounded() -> None:
    spells = Spells(AT_ONCE)
    subjects = [gate() for _ in range(SUBJECTS_KEPT + 5)]
    for subject in subjects:
        key = (id(subject), 0)
        spells.begin(key, Spell(subject, 1.0, None))
        spells.end(key, 1.01)
    spells.tick()
    assert [spells.begin((id(each), 0), Spell(each, 2.0, None)) for each in subjects[-5:]] == [True] * 5
