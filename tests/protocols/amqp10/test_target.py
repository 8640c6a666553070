"""Targets: the route of each message by its header."""

from __future__ import annotations

from penstock.protocols.amqp10.target import Target
from penstock.wire.amqp10.message_rewriter import header_octets
from penstock.wire.amqp10.sections import Sections
from tests.support.amqp10_dialogue import data_section
from tests.support.driven_connection import make_driver


def test_priority_and_time_to_live_make_a_route_of_their_own() -> None:
    vhost = make_driver().broker.vhosts["/"]
    vhost.declare_queue("q", {}, False, False, None, None)
    target = Target(vhost, "", "q")
    content = header_octets(False, 7, 2_500) + data_section(b"x")
    sections = Sections()
    sections.walk(content, 0, len(content))
    route = target.route_of(content, content, sections)
    assert (route.envelope.priority, route.envelope.ttl_s) == (7, 2.5)
    plain = data_section(b"x")
    sections.walk(plain, 0, len(plain))
    assert target.route_of(plain, plain, sections) is target.fixed_route()


def test_route_follows_the_topology() -> None:
    vhost = make_driver().broker.vhosts["/"]
    target = Target(vhost, "amq.fanout", "")
    route = target.fixed_route()
    assert route is not None
    assert route.queues == []
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    vhost.bind("amq.fanout", queue, None, "", {})
    route = target.fixed_route()
    assert route is not None
    assert route.queues == [queue]
