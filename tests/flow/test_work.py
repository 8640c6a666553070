"""Shares of a turn and work in slices: counted and fair, so that large work delays no small work."""

from __future__ import annotations

import pytest
from mypy_extensions import i64

from penstock.flow.work import SHARE, TURN, UNITS_A_TURN, UNITS_AT_LEAST, Chore, Chores, Worker, WorkMeter, WorkQueue


class Client(Worker):
    """A client whose next actions cost what is in the list."""

    def __init__(self, *costs: int) -> None:
        super().__init__()
        self.costs = list(costs)


def serve(line: WorkQueue, client: Client) -> int:
    """Give a client its share; returns how many of its actions were acted on."""
    line.begin(client)
    done = 0
    while client.costs and not line.meter.used_up():
        line.meter.done += client.costs.pop(0)
        done += 1
    line.end(client)
    if client.costs:
        line.enter(client)
    return done


def turn(line: WorkQueue) -> list[Worker]:
    """Serve the line for one turn; returns who was served."""
    served: list[Worker] = []
    worker = line.next()
    while worker is not None:
        assert isinstance(worker, Client)
        serve(line, worker)
        served.append(worker)
        worker = line.next()
    line.begin_turn()
    return served


@pytest.fixture
def line() -> WorkQueue:
    return WorkQueue(WorkMeter())


def test_client_is_served_until_the_share_is_used_up(line: WorkQueue) -> None:
    client = Client(*[100] * 1000)
    assert serve(line, client) == SHARE // 100
    assert client.in_line
    assert client.work_done == SHARE


def test_turn_ends_when_used_up_and_exceeds_the_limit_by_at_most_a_share() -> None:
    meter = WorkMeter()
    line = WorkQueue(meter)
    for _ in range(50):
        line.enter(Client(*[100] * 1000))
    for _ in range(20):
        before = meter.done
        turn(line)
        assert TURN <= meter.done - before < TURN + SHARE + 100


def test_worker_that_used_little_precedes_workers_that_used_much(line: WorkQueue) -> None:
    for _ in range(50):
        line.enter(Client(*[100] * 1000))
    for _ in range(20):
        turn(line)
    quiet = Client(10)
    line.enter(quiet)
    assert turn(line)[0] is quiet


def test_worker_that_used_ten_shares_waits_until_other_workers_had_as_much(line: WorkQueue) -> None:
    heavy, others = Client(10 * SHARE, 1), [Client(*[SHARE] * 20) for _ in range(2)]
    for client in (heavy, *others):
        line.enter(client)
    served = [worker for _ in range(40) for worker in turn(line)]
    again = served.index(heavy, 1)
    assert served[0] is heavy
    assert all(served[:again].count(other) >= 10 for other in others)


def test_debt_of_a_worker_is_forgotten_after_a_turn_without_work(line: WorkQueue) -> None:
    heavy = Client(10 * SHARE)
    serve(line, heavy)
    line.begin_turn()
    heavy.costs = [1]
    assert line.may_start(heavy)


def test_new_input_waits_behind_earlier_input_or_when_the_turn_is_used_up(line: WorkQueue) -> None:
    waiting, heavy, fresh = Client(1), Client(3 * SHARE), Client(1)
    serve(line, heavy)
    line.enter(waiting)
    assert not line.may_start(heavy)
    assert line.may_start(fresh)
    line.meter.done += TURN
    assert not line.may_start(fresh)
    line.begin_turn()
    assert line.may_start(fresh)


def test_client_alone_has_a_single_share_in_a_turn(line: WorkQueue) -> None:
    client = Client(*[100] * 1000)
    line.enter(client)
    assert turn(line) == [client]
    assert client.work_done == SHARE
    assert turn(line) == [client]
    assert client.work_done == 2 * SHARE


def test_entering_the_line_twice_is_once(line: WorkQueue) -> None:
    client = Client(1)
    line.enter(client)
    line.enter(client)
    assert turn(line) == [client]
    assert len(line) == 0


def test_meter_reports_when_work_in_steps_must_yield() -> None:
    meter = WorkMeter()
    assert not meter.spend(1_000)
    meter.limit = meter.done + 10
    assert [meter.spend(4) for _ in range(3)] == [False, False, True]
    assert meter.done == 1_012


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


def test_turn_does_no_more_than_the_units() -> None:
    chores, long = Chores(), Digging(10 * UNITS_A_TURN + 1)
    chores.add(long)
    spent = []
    while chores.pending():
        spent.append(int(chores.run(0.0)))
    assert spent == [UNITS_A_TURN] * 10 + [1]
    assert long.slices == spent


def test_chore_of_little_work_ends_in_the_first_turn_beside_a_long_chore() -> None:
    chores, long, short = Chores(), Digging(100 * UNITS_A_TURN), Digging(10)
    chores.add(long)
    chores.add(short)
    chores.run(0.0)
    assert (short.left, long.slices) == (0, [UNITS_A_TURN // 2])


def test_chores_beyond_a_turn_go_on_in_order() -> None:
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


def test_chore_in_line_is_not_added_again() -> None:
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


def test_turn_counts_the_work_that_chores_report() -> None:
    meter = WorkMeter()
    chores = Chores(meter)
    for _ in range(4):
        chores.add(Counting(10 * UNITS_A_TURN, meter))
    assert chores.run(0.0) == meter.done == UNITS_A_TURN
