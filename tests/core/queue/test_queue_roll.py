"""Roll of queues: a walk in parts visits each queue that stays, once."""

from __future__ import annotations

from random import Random

import pytest

from penstock.core.queue.queue_roll import SECTION
from penstock.core.vhost import VirtualHost
from tests.support.driven_connection import make_driver
from tests.support.topology import declare


@pytest.fixture
def vhost() -> VirtualHost:
    return make_driver().broker.vhosts["/"]


@pytest.mark.parametrize("most", [1, 7, SECTION, 10 * SECTION])
def test_parts_are_all_queues_in_order_of_creation(vhost: VirtualHost, most: int) -> None:
    for number in range(2 * SECTION + 3):
        declare(vhost, f"q{number}")
    vhost.broker.delete_queue(vhost.queues["q5"])
    declare(vhost, "q5")
    parts = list(vhost.roll.parts(most))
    assert [queue.name for part in iter(parts) for queue in part] == list(vhost.queues)
    assert max(map(len, parts)) <= min(most, SECTION)


def test_walk_has_every_queue_that_exists_throughout_exactly_once(vhost: VirtualHost) -> None:
    random = Random(11)
    for number in range(4 * SECTION):
        declare(vhost, f"q{number}")
    kept = set(vhost.queues)
    found: list[str] = []
    for part in vhost.roll.parts(10):
        found += [queue.name for queue in part if not queue.deleted]
        for name in random.sample(sorted(vhost.queues), 7):
            vhost.broker.delete_queue(vhost.queues[name])
            kept.discard(name)
            declare(vhost, name if random.random() < 0.3 else f"new-{random.random()}")
    assert kept <= set(found)
    assert all(found.count(name) == 1 for name in kept)


def test_section_without_queues_is_dropped(vhost: VirtualHost) -> None:
    for number in range(4 * SECTION):
        vhost.broker.delete_queue(declare(vhost, f"q{number}"))
    assert [queue.name for part in vhost.roll.parts(10) for queue in part] == []
    assert not vhost.roll._sections
