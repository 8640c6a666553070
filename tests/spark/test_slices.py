"""Slices of tasks: small ones are packed, as a function of the slices and of the options of the cut alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_penstock.offsets import split
from pyspark_penstock.parsing import Address
from pyspark_penstock.slices import PACKED_ROWS, Slice, packed
from tests.profiles import examples

ONE, TWO = Address("one", 5672), Address("two", 5672)


def slices(*sizes: int, server: Address = ONE) -> list[Slice]:
    return [Slice(server, f"q{index}", 1, 7, 7 + size, size) for index, size in enumerate(sizes)]


def sizes_of(tasks: list[tuple[Slice, ...]]) -> list[list[int]]:
    return [[each.hi - each.lo for each in task] for task in tasks]


def test_small_slices_are_one_task() -> None:
    assert sizes_of(packed(slices(*[10] * 100), 1, 200_000)) == [[10] * 100]
    assert packed([], 1, 200_000) == []


def test_task_has_no_more_rows_than_a_packed_one_may_have() -> None:
    assert sizes_of(packed(slices(6_000, 6_000, 4_000, 30_000, 5), 1, 200_000)) == [
        [6_000],
        [6_000, 4_000],
        [30_000],
        [5],
    ]
    assert PACKED_ROWS == 10_000


def test_task_has_no_more_rows_than_asked_for() -> None:
    assert sizes_of(packed(slices(60, 40, 40, 70), 1, 100)) == [[60, 40], [40], [70]]


def test_packing_leaves_as_many_tasks_as_asked_for() -> None:
    assert len(packed(slices(*[10] * 100), 8, 200_000)) >= 8
    assert sizes_of(packed(slices(1, 1, 1), 5, 200_000)) == [[1], [1], [1]]


def test_task_reads_from_one_server() -> None:
    first, second = slices(10, 10), slices(10, 10, server=TWO)
    tasks = packed([first[0], second[0], first[1], second[1]], 1, 200_000)
    assert tasks == [tuple(first), tuple(second)]


@given(
    sizes=st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.integers(1, 60)), max_size=30),
    least=st.integers(1, 40),
    most=st.integers(1, 80),
)
@settings(max_examples=examples(200))
def test_packing_keeps_every_slice_in_the_order_of_its_server(
    sizes: list[tuple[Address, int]], least: int, most: int
) -> None:
    servers = {f"q{index:02d}": server for index, (server, _) in enumerate(sizes)}
    ends = {key: size for key, (_, size) in zip(servers, sizes, strict=True)}
    ranges = split(dict.fromkeys(ends, 0), ends, least, most)
    every = [Slice(servers[each.key], each.key, 1, each.lo, each.hi, each.hi - each.lo) for each in ranges]
    tasks = packed(every, least, most)
    for server in (ONE, TWO):
        assert [each for task in tasks for each in task if each.server == server] == [
            each for each in every if each.server == server
        ]
    for task in tasks:
        assert len({each.server for each in task}) == 1
        assert sum(each.hi - each.lo for each in task) <= most
    assert len(tasks) >= min(least, sum(ends.values()))
