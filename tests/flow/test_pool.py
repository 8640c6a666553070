"""Shares of pools: no user or virtual host can take the share of the next one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import DataObject

from penstock.errors import ResourceError
from penstock.flow.pool import IdleUnits, Pool, PoolHolder, Pools, PoolUnit
from penstock.settings.pools import BOTH, POOLS, USER, VHOST, PoolRow
from tests.profiles import examples

LIMIT = 1_000
ROW = PoolRow("things", "things", "1,000", "refused", BOTH, "things", LIMIT)


def a_pool(shared: str = BOTH, limit: int = LIMIT) -> Pool:
    return Pool(PoolRow("things", "things", "some", "refused", shared, "things", limit), limit)


def taken_by(pool: Pool, holder: PoolHolder) -> int:
    """Let a holder take units one at a time until one is refused; return how many it took."""
    count = 0
    while pool.take(holder, 1):
        count += 1
    return count


def test_greedy_user_leaves_shares_to_other_users_and_virtual_hosts() -> None:
    pool = a_pool()
    eve, again, mate, bob = (PoolHolder(*who) for who in (("eve", "a"), ("eve", "b"), ("mate", "a"), ("bob", "c")))
    assert taken_by(pool, eve) == 351  # Three eighths of all but the reserve.
    assert taken_by(pool, again) > 0
    assert int(pool.of_user("eve")) <= (LIMIT - LIMIT // 16 + 1) // 2
    assert taken_by(pool, mate) > 50
    assert int(pool.of_vhost("a")) <= 3 * LIMIT // 4
    assert taken_by(pool, bob) > 50


def test_virtual_host_with_many_users_leaves_a_share_to_other_virtual_hosts() -> None:
    pool = a_pool()
    for number in range(50):
        taken_by(pool, PoolHolder(f"eve {number}", "a"))
    assert int(pool.of_vhost("a")) <= 3 * LIMIT // 4
    assert taken_by(pool, PoolHolder("bob", "b")) > 50


def test_operators_have_a_reserve_and_other_users_a_share_of_the_rest() -> None:
    pool = a_pool(USER)
    for number in range(1_000):
        taken_by(pool, PoolHolder(f"eve {number}", "a"))
    assert int(pool.taken) == LIMIT - LIMIT // 16
    assert taken_by(pool, PoolHolder("operator", "a", True)) == 3 * (LIMIT // 16) // 4
    pool = a_pool(USER)
    assert taken_by(pool, PoolHolder("operator", "a", True)) == 3 * LIMIT // 4
    assert taken_by(pool, PoolHolder("bob", "a")) >= LIMIT // 10


def test_first_units_fit_although_larger_than_a_share() -> None:
    pool = a_pool()
    assert pool.take(PoolHolder("eve", "a"), 900)
    assert not pool.take(PoolHolder("eve", "a"), 1)
    assert not pool.take(PoolHolder("bob", "b"), 100)
    assert pool.take(PoolHolder("bob", "b"), 38)


def test_pool_that_users_do_not_share_knows_virtual_hosts_alone() -> None:
    pool = a_pool(VHOST)
    taken_by(pool, PoolHolder("", "a"))
    assert pool.holders() == [("", "a", 469)]
    pool = a_pool(USER)
    taken_by(pool, PoolHolder("eve", "a"))
    assert pool.holders() == [("eve", "", 469)]


def test_refusal_names_the_pool_the_holders_the_limit_and_the_rule() -> None:
    pool = a_pool()
    taken_by(pool, PoolHolder("eve", "a"))
    taken_by(pool, PoolHolder("bob", "b"))
    with pytest.raises(ResourceError) as refused:
        pool.require(PoolHolder("eve", "a"), 1)
    assert str(refused.value) == (
        "things: user 'eve' in vhost 'a' has 351 and one more does not fit into its share; all have 571 of 1,000 "
        "things (most: user 'eve' in vhost 'a' 351, user 'bob' in vhost 'b' 220). A user may have half of what others "
        "leave, a virtual host three quarters; a sixteenth is for operators"
    )
    assert int(pool.refused) == 1


def test_small_pool_reserves_a_single_unit() -> None:
    pool = a_pool(USER, 8)
    for user in "abcdefghi":
        taken_by(pool, PoolHolder(user, ""))
    assert int(pool.taken) == 7
    assert pool.take(PoolHolder("operator", "", True), 1)


@pytest.mark.parametrize("row", POOLS, ids=lambda row: row.key)
def test_second_user_of_another_virtual_host_gets_a_share_of_every_pool(row: PoolRow) -> None:
    pool = Pools().of(row)
    if row.limit == 0:
        pool.set_limit(100 * 2**20)
    part = max(1, int(pool.limit) // 1_000)
    for vhost in ("other", "more"):
        while pool.take(PoolHolder("eve", vhost), part):
            pass
    before = int(pool.taken)
    while pool.take(PoolHolder("bob", "/"), part):
        pass
    assert int(pool.taken) - before >= max(1, int(pool.limit) // 10 if pool.limit >= 64 else 1)
    assert pool.take(PoolHolder("operator", "/", True), 1)


class Thing(PoolUnit):
    def __init__(self, holder: PoolHolder, name: str) -> None:
        self.holder = holder
        self.name = name


def test_oldest_idle_unit_of_the_largest_holder_makes_room() -> None:
    pool = a_pool(BOTH, 6)
    idle = IdleUnits(pool)
    eve, bob = PoolHolder("eve", "a"), PoolHolder("bob", "b")
    things = [Thing(eve, f"eve {number}") for number in range(4)] + [Thing(bob, f"bob {number}") for number in range(2)]
    for thing in things:
        assert idle.to_displace(1) is None
        pool.add(thing.holder, 1)
        idle.rest(thing)
    idle.wake(things[0])
    assert idle.to_displace(1) is things[1]
    idle.rest(things[1])  # It was used.
    assert idle.to_displace(1) is things[2]
    for thing in things[:3]:
        idle.wake(thing)
        pool.give(eve, 1)
    assert idle.to_displace(1) is None
    assert idle.to_displace(4) is things[4]
    assert idle.oldest_of(eve) is things[3]
    assert len(idle) == 3


class PoolMachine(RuleBasedStateMachine):
    """Holders take and give units: sums are right, and who has nothing gets something while there is any."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = a_pool(BOTH, 64)
        self.idle = IdleUnits(self.pool)
        self.things: list[Thing] = []

    @rule(user=st.sampled_from("abcd"), vhost=st.sampled_from("xyz"), operator=st.booleans())
    def take(self, user: str, vhost: str, operator: bool) -> None:
        holder = PoolHolder(user, vhost, operator)
        free = 64 - len(self.things)
        had = any(thing.holder.user == user and thing.holder.vhost == vhost for thing in self.things)
        took = self.pool.take(holder, 1)
        if not had and free > (0 if operator else 64 // 16):
            assert took
        if took:
            thing = Thing(holder, "")
            self.things.append(thing)
            self.idle.rest(thing)

    @precondition(lambda self: self.things)
    @rule(data=st.data())
    def give(self, data: DataObject) -> None:
        thing = data.draw(st.sampled_from(self.things))
        self.things.remove(thing)
        self.idle.wake(thing)
        self.pool.give(thing.holder, 1)

    @invariant()
    def sums_are_right(self) -> None:
        assert int(self.pool.taken) == len(self.things) <= 64
        held = {(each[0], each[1]): each[2] for each in self.pool.holders(100)}
        assert sum(held.values()) == len(self.things)
        largest = self.idle.oldest_of_most()
        if largest is None:
            assert not self.things
        else:
            assert held[largest.holder.user, largest.holder.vhost] == max(held.values())


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=examples(60), stateful_step_count=60)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz")), max_size=300))
@settings(max_examples=examples(60))
def test_user_never_has_more_than_half_of_the_rest(takers: list[tuple[str, str]]) -> None:
    pool = a_pool(BOTH, 128)
    for user, vhost in takers:
        had = int(pool.of_part((vhost, user)))
        if pool.take(PoolHolder(user, vhost), 1) and had > 0:
            of_user, of_vhost = int(pool.of_user(user)), int(pool.of_vhost(vhost))
            left = 128 - 128 // 16
            assert 2 * of_user <= left - (int(pool.taken) - of_user)
            assert 4 * of_vhost <= 3 * (left - (int(pool.taken) - of_vhost))
