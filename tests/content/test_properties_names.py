"""The longest name, and where a longer one is refused."""

from __future__ import annotations

import pytest

from penstock.content.properties import check_name, is_name
from penstock.errors import PreconditionFailed
from tests.support.broker_fixture import House

LONGEST = "é" * 127 + "a"
TOO_LONG = "é" * 128


def test_name_is_measured_in_octets() -> None:
    assert is_name(LONGEST)
    assert not is_name(TOO_LONG)
    check_name("queue name", LONGEST)
    with pytest.raises(PreconditionFailed, match=r"queue name .é{60}…. has 256 octets; the most is 255"):
        check_name("queue name", TOO_LONG)


def test_name_too_long_is_refused_where_it_enters_the_core() -> None:
    house = House()
    vhost = house.vhost
    house.queue("work")
    with pytest.raises(PreconditionFailed, match="queue name"):
        vhost.declare_queue(TOO_LONG, {}, False, False, None, None)
    with pytest.raises(PreconditionFailed, match="exchange name"):
        vhost.declare_exchange(TOO_LONG, "direct", {}, False, False, False)
    with pytest.raises(PreconditionFailed, match="routing key"):
        vhost.bind("amq.direct", vhost.queues["work"], None, TOO_LONG, {})
    with pytest.raises(PreconditionFailed, match="routing key"):
        vhost.route("amq.direct", TOO_LONG, False)
    assert TOO_LONG not in vhost.queues
    assert TOO_LONG not in vhost.exchanges
    vhost.bind("amq.direct", vhost.queues["work"], None, LONGEST, {})
    route = vhost.route("amq.direct", LONGEST, False)
    vhost.resolve(route, {})
    assert route.queues == [vhost.queues["work"]]
