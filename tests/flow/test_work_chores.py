"""Work in slices: counted, shared, and nobody waits for who has more."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.flow.work import UNITS_A_TURN, UNITS_AT_LEAST, Chore, Chores, WorkMeter


class Digging(Chore):
    """So many units of work, and what it was given of them, turn by turn."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.left = units
        self.slices: list[int] = []

    def has_more(self) -> bool:
        return self.left > 0

    def work(self, most: i64, now: float) -> i64:
        done = min(self.left, int(most))
        self.left -= done
        self.slices.append(done)
        return done


def test_turn_does_no_more_than_its_units() -> None:
    chores, long = Chores(), Digging(10 * UNITS_A_TURN + 1)
    chores.add(long)
    spent = []
    while chores.pending():
        spent.append(int(chores.run(0.0)))
    assert spent == [UNITS_A_TURN] * 10 + [1]
    assert long.slices == spent


def test_who_has_little_is_done_in_the_first_turn_beside_who_has_much() -> None:
    chores, long, short = Chores(), Digging(100 * UNITS_A_TURN), Digging(10)
    chores.add(long)
    chores.add(short)
    chores.run(0.0)
    assert (short.left, long.slices) == (0, [UNITS_A_TURN // 2])


def test_of_a_crowd_some_go_in_each_turn_and_all_in_their_order() -> None:
    chores = Chores()
    crowd = [Digging(3 * UNITS_AT_LEAST) for _ in range(100)]
    for each in crowd:
        chores.add(each)
    turns = 0
    while chores.pending():
        assert chores.run(0.0) <= UNITS_A_TURN
        turns += 1
        done = [len(each.slices) for each in crowd]
        assert max(done) - min(done) <= 1
    assert turns == 100 * 3 * UNITS_AT_LEAST // UNITS_A_TURN


def test_who_is_in_line_is_not_put_there_again() -> None:
    chores, one = Chores(), Digging(10)
    chores.add(one)
    chores.add(one)
    chores.run(0.0)
    assert one.slices == [10]
    assert not chores.pending()


class Counting(Digging):
    """Work that is counted on the meter, besides what it returns."""

    def __init__(self, units: int, meter: WorkMeter) -> None:
        super().__init__(units)
        self.meter = meter

    def work(self, most: i64, now: float) -> i64:
        self.meter.done += most
        return super().work(most, now)


def test_turn_counts_what_its_chores_count_themselves() -> None:
    meter = WorkMeter()
    chores = Chores(meter)
    for _ in range(4):
        chores.add(Counting(10 * UNITS_A_TURN, meter))
    assert chores.run(0.0) == meter.done == UNITS_A_TURN
