"""Whatever lasts comes back as it was, and nothing else does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from penstock.core.routing.declarations import number_of
from tests.profiles import examples
from tests.support.restored_broker import Declared, differences, exported, journaled, names, view
from tests.support.topology_changes import Act, acts, attempt, furnish


@hypothesis(max_examples=examples(160), deadline=None)
@given(st.lists(st.tuples(acts, st.booleans()), min_size=10, max_size=50), st.randoms(use_true_random=False))
def test_what_lasts_comes_back_as_it_was_in_whatever_order(steps: list[tuple[Act, bool]], chance: object) -> None:
    driver = journaled()
    store = Declared(driver)
    furnish(driver)
    for act, write in steps:
        attempt(driver, act)
        if write:
            store.write()
    while driver.run_turn():
        pass
    store.write()
    assert store.names() == names(driver), "what was deleted left something behind, or what lasts was not kept"
    for cursor in [each for vhost in driver.broker.vhosts.values() for each in vhost.cursors.values()]:
        for position in cursor.positions.values():
            if number_of(position.queue) and not position.queue.deleted:
                told_of = max(position.initial, position.settled, position.planned)
                assert store.tail(position.queue) >= told_of, "a number might be given again"
    order = store.things()
    chance.shuffle(order)  # type: ignore[attr-defined]
    again, told = store.restored(order)
    assert told == []
    assert differences(view(driver), view(again)) == {}
    assert exported(again) == exported(driver)


def test_definition_that_is_refused_is_left_out_with_a_remark() -> None:
    driver = journaled()
    store = Declared(driver)
    driver.broker.vhosts["/"].declare_exchange("logs", "topic", {}, True, False, False)
    store.write()
    ((kind, key, data),) = [(each.kind, each.key, each.data) for each in store.things() if "logs" in each.key]
    store.shelf.things[kind, key] = data.replace(b"topic", b"tropic")
    again, told = store.restored()
    assert "logs" not in again.broker.vhosts["/"].exchanges
    assert [each.partition(":")[0] for each in told] == [f"exchange '{key}' in the store was not restored"]
