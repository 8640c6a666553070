"""Credit under any events: granted credit is reserved, no limit is overrun, no wake-up is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from tests.support.credit_world import LINKS, ROADS, CreditWorld

LINK = st.integers(0, LINKS - 1)
QUEUE = st.integers(0, 2)
FEW = st.integers(1, 6)
SIZE = st.sampled_from([0, 0, 0, 1, 5])

COMMON = [
    st.tuples(st.just("attach"), LINK, st.integers(0, len(ROADS) - 1)),
    st.tuples(st.just("send"), LINK, FEW, SIZE),
    st.tuples(st.just("send"), LINK, st.just(20), st.just(0)),
    st.tuples(st.just("publish"), st.integers(0, 2), QUEUE, SIZE),
    st.tuples(st.just("take"), QUEUE, FEW),
    st.tuples(st.just("turn")),
    st.tuples(st.just("step")),
    st.tuples(st.just("flow"), LINK, st.sampled_from([0, 3, 100])),
]
RARE = [
    st.tuples(st.just("answer_drain"), LINK),
    st.tuples(st.just("give_back"), LINK, FEW),
    st.tuples(st.just("detach"), LINK),
    st.tuples(st.just("widen")),
    st.tuples(st.just("delete"), QUEUE),
    st.tuples(st.just("declare"), QUEUE),
    st.tuples(st.just("change_capacity"), QUEUE, st.integers(0, 10)),
    st.tuples(st.just("block"), QUEUE),
    st.tuples(st.just("unblock"), QUEUE),
    st.tuples(st.just("wait"), st.sampled_from([1, 6, 11])),
]
EVENTS = st.lists(st.one_of(*COMMON, *COMMON, *RARE), min_size=5, max_size=60)


@settings(max_examples=examples(2000))
@given(EVENTS)
def test_credit_is_reserved_and_no_wake_up_is_lost_under_any_events(events: list[tuple[object, ...]]) -> None:
    world = CreditWorld()
    for number, road in enumerate((0, 0, 3, 4)):
        world.attach(number, road)
    for name, *values in events:
        getattr(world, str(name))(*values)
        world.check()
        if name in ("turn", "take", "detach", "unblock", "wait", "give_back"):
            world.check_quiet()
    world.check_quiet()
    world.end()
