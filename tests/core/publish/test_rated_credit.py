"""Credit under a rate: granted in turn, and saved credit makes no sender faster."""

from __future__ import annotations

import random

import pytest

from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.broker_fixture import House, most_in_a_second
from tests.support.sender_links import CHARGE, Link, run_until_quiet


@pytest.mark.once
@pytest.mark.parametrize("scope", ["producer", "user", "address"])
@pytest.mark.parametrize("rate", [3, 10, 200])
def test_rate_paces_saved_credit_like_all_other_publishes(house: House, scope: str, rate: int) -> None:
    house.queue("a")
    house.vhost.bind("amq.fanout", house.vhost.queues["a"], None, "", {})
    at_once.set_settings(
        house.broker,
        scope,
        "amq.fanout" if scope == "address" else "alice",
        read_settings(scope, "x", {"rate-messages": rate}),
    )
    links = [Link(house, "", "amq.fanout") for _ in range(1 if scope == "producer" else 20)]
    passed: list[float] = []

    def let_pass(until: float, sending: bool) -> None:
        while house.broker.now < until:
            for link in links:
                link.credit.on_flow(100)  # It has more, and says so.
                if sending:
                    link.send(1000)
            run_until_quiet(house)
            passed.extend([house.broker.now] * (house.depth("a") - len(passed)))
            house.broker.begin(house.broker.now + 0.002)

    let_pass(house.broker.now + 10.0, False)
    assert all(link.left > 0 for link in links), "credit is there, and nobody uses it"
    assert passed == []
    begun = house.broker.now
    let_pass(begun + 3.0, True)
    assert len(passed) >= int(0.95 * 3.0 * rate), "and no slower"
    let_pass(house.broker.now + 5.0, False)
    assert most_in_a_second(passed) <= rate + 1
    assert all(not link.producer.outbox for link in links), "what had to wait has passed"
    most = len(passed)
    let_pass(house.broker.now + 1.0, True)
    assert len(passed) > most


def test_link_and_channel_of_the_same_user_share_the_rate(house: House) -> None:
    how = read_settings("user", "alice", {"rate-messages": 20})
    at_once.set_settings(house.broker, "user", "alice", how)
    house.queue("a", "b")
    link, channel = Link(house, "a"), house.producer("channel")
    house.publish(channel, "b", CHARGE, count=200)
    passed: list[float] = []
    while house.broker.now < 105.0:
        link.send(1000)
        run_until_quiet(house)
        passed.extend([house.broker.now] * (house.depth("a") + house.depth("b") - len(passed)))
        house.broker.begin(house.broker.now + 0.002)
    assert most_in_a_second(passed) <= 21
    assert len(passed) >= 90
    assert 35 <= house.depth("a") <= 65, "each has its turns"


@pytest.mark.parametrize("seed", range(6))
def test_rate_of_a_user_is_exceeded_in_no_second_by_any_senders(house: House, seed: int) -> None:
    chance = random.Random(seed)
    house.set("user", "alice", rate_messages=10)
    house.queue("a")
    links = [Link(house, "a") for _ in range(8)]
    channel = house.producer("channel")
    passed: list[float] = []
    sent = 0
    while house.broker.now < 120.0:
        for link in chance.sample(links, chance.randint(0, 8)):
            link.credit.on_flow(chance.randint(0, 50))
            sent += link.send(chance.randint(0, 5))
        if chance.random() < 0.05:
            house.publish(channel, "a", CHARGE)
            sent += 1
        run_until_quiet(house)
        passed.extend([house.broker.now] * (house.depth("a") - len(passed)))
        house.broker.begin(
            house.broker.now + chance.choice((0.001, 0.01, 0.02, 0.02, 1.0 if chance.random() < 0.02 else 0.01))
        )
    assert most_in_a_second(passed) <= 11
    assert sent > 60
    house.broker.begin(house.broker.now + 1.0)
    while any(each.outbox for each in [channel, *(link.producer for link in links)]):
        run_until_quiet(house)
        house.broker.begin(house.broker.now + 0.1)
    for link in links:
        link.take_outcomes()
    assert sum(link.refused for link in links) == 0
    assert house.depth("a") == sent, "nothing is lost"


def test_removed_rate_releases_waiters_and_restores_the_window(house: House) -> None:
    house.queue("a")
    house.set("user", "alice", rate_messages=1)
    links = [Link(house, "a") for _ in range(5)]
    until = house.broker.now + 10.0
    while house.broker.now < until:
        run_until_quiet(house)
        house.broker.begin(house.broker.now + 0.1)
    assert [link.send(10) for link in links] == [1] * 5
    assert house.depth("a") == 1
    at_once.remove(house.broker, "user", "alice", [])
    run_until_quiet(house)
    assert house.depth("a") == 5
    assert all(link.left > 1 for link in links)
