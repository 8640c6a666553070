"""Publishes through huge topologies: the bound of their cost, and refusals beyond."""

import pytest

from penstock.core.routing.route import (
    COPIES_MAX,
    HOPS_MAX,
    TARGETS_MAX,
    VISITS_A_UNIT,
    VISITS_MAX,
    Route,
    route_with_copies,
)
from penstock.core.vhost import ROUTE_WORK, VirtualHost
from penstock.errors import PreconditionFailed, ResourceError
from tests.support.topology import a_vhost, declare, exchange, resolve


def work_of_refusal(vhost: VirtualHost, name: str, key: str, text: str) -> int:
    """Have a publish refused with this text in its reason; return the units of work that it cost."""
    work = vhost.gates.broker.work
    before = work.done
    with pytest.raises(ResourceError, match=text):
        resolve(vhost, name, key)
    return int(work.done - before)


def test_copies_that_match_thousands_of_patterns_are_refused_after_a_bounded_walk(vhost: VirtualHost) -> None:
    exchange(vhost, "t", "topic")
    declare(vhost, "q")
    for number in range(2000):
        vhost.bind("t", vhost.queue("q"), None, "#", {"number": number})
    route = route_with_copies(vhost.route("t", "k", False), {"CC": [f"{number}" for number in range(500)]})
    assert route is not None
    work = vhost.gates.broker.work
    before = work.done
    with pytest.raises(ResourceError, match=f"more than {VISITS_MAX} bindings"):
        vhost.resolve(route, {})
    assert work.done - before <= VISITS_MAX // VISITS_A_UNIT


def test_key_of_many_words_is_refused_after_a_bounded_walk_of_patterns(vhost: VirtualHost) -> None:
    exchange(vhost, "t", "topic")
    declare(vhost, "q")
    for first in range(70):
        for second in range(70):
            vhost.bind("t", vhost.queue("q"), None, f"#.{chr(48 + first)}.#.{chr(48 + second)}.#.end", {})
    cost = work_of_refusal(vhost, "t", ".".join(chr(48 + n) for n in range(110)), "visit more than")
    assert cost <= ROUTE_WORK + VISITS_MAX // VISITS_A_UNIT


def test_chain_of_exchanges_is_followed_up_to_the_bound(vhost: VirtualHost) -> None:
    for number in range(HOPS_MAX + 1):
        exchange(vhost, f"e{number}", "fanout")
    for number in range(HOPS_MAX):
        vhost.bind(f"e{number}", None, vhost.exchange(f"e{number + 1}"), "", {})
    declare(vhost, "end")
    vhost.bind(f"e{HOPS_MAX}", vhost.queue("end"), None, "", {})
    assert [each.name for each in resolve(vhost, "e1").queues] == ["end"]
    work_of_refusal(vhost, "e0", "", f"go through more than {HOPS_MAX} exchanges")


def test_chain_of_alternate_exchanges_has_the_same_bound(vhost: VirtualHost) -> None:
    for number in range(HOPS_MAX + 1):
        vhost.declare_exchange(f"e{number}", "direct", {"alternate-exchange": f"e{number + 1}"}, False, False, False)
    assert resolve(vhost, "e1").queues == []
    work_of_refusal(vhost, "e0", "", f"go through more than {HOPS_MAX} exchanges")


def test_message_reaches_no_more_queues_than_the_bound(vhost: VirtualHost) -> None:
    exchange(vhost, "f", "fanout")
    for number in range(TARGETS_MAX + 1):
        declare(vhost, f"q{number}")
        vhost.bind("f", vhost.queue(f"q{number}"), None, "", {})
    work_of_refusal(vhost, "f", "", f"go into {TARGETS_MAX + 1} queues; {TARGETS_MAX} is the most")
    vhost.delete_queue(vhost.queue("q0"), 0.0)
    assert len(resolve(vhost, "f").queues) == TARGETS_MAX


def test_message_names_no_more_copies_than_the_bound() -> None:
    route = Route(a_vhost().route("t", "k", False).envelope, False)
    keys = [str(number) for number in range(COPIES_MAX)]
    assert route_with_copies(route, {"CC": keys}) is not None
    with pytest.raises(PreconditionFailed, match=f"hold {COPIES_MAX + 1} routing keys; the most is {COPIES_MAX}"):
        route_with_copies(route, {"CC": keys, "BCC": ["one more"]})
