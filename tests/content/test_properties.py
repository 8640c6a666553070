"""Neutral properties of a message, bounds of names, and the validity of trace context (W3C)."""

from __future__ import annotations

import pytest

from penstock.content.properties import (
    PROPERTY_NAMES,
    STATE_MOST,
    TEXT_PROPERTIES,
    Properties,
    check_name,
    is_name,
    read_context,
)
from penstock.errors import PreconditionFailed
from tests.support.broker_fixture import House


def test_properties_that_are_absent_are_left_out_and_the_order_is_fixed() -> None:
    made = Properties(cluster_id="c", content_type="t", headers={})
    assert list(made.as_dict().items()) == [("content_type", "t"), ("headers", {}), ("cluster_id", "c")]
    assert repr(made) == "Properties(content_type='t', headers={}, cluster_id='c')"


def test_properties_are_equal_by_value_and_have_no_hash() -> None:
    assert Properties(priority=1) == Properties(priority=1) != Properties(priority=2)
    assert Properties() != {}
    with pytest.raises(TypeError):
        hash(Properties())


def test_properties_that_are_texts_are_all_but_tables_numbers_and_the_reserved_one() -> None:
    others = {"headers", "delivery_mode", "priority", "timestamp", "cluster_id"}
    assert sorted(TEXT_PROPERTIES) == sorted(name for name in PROPERTY_NAMES if name not in others)


LONGEST = "é" * 127 + "a"
TOO_LONG = "é" * 128


def test_name_is_measured_in_bytes() -> None:
    assert is_name(LONGEST)
    assert not is_name(TOO_LONG)
    check_name("queue name", LONGEST)
    with pytest.raises(PreconditionFailed, match=r"queue name .é{60}…. has 256 bytes; the most is 255"):
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


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


def test_trace_context_has_the_ids_the_flags_and_the_state() -> None:
    found = read_context(VALID, "congo=t61rcWkgMzE")
    assert (found.trace_id, found.parent_id, found.flags, found.state) == (TRACE, PARENT, 1, "congo=t61rcWkgMzE")
    assert found.is_sampled()


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
def test_trace_context_is_sampled_by_its_flag(flags: str, sampled: bool) -> None:
    found = read_context(f"00-{TRACE}-{PARENT}-{flags}", None)
    assert found.is_sampled() is sampled


@pytest.mark.parametrize("value", [VALID.encode(), f"cc-{TRACE}-{PARENT}-01-what-the-future-brings"])
def test_trace_context_is_read_from_bytes_and_of_later_versions(value: object) -> None:
    found = read_context(value, None)
    assert (found.trace_id, found.state) == (TRACE, "")


@pytest.mark.parametrize(
    "value",
    [
        None, 7, "", b"\xff" * 55, VALID[:-1], VALID + "-01", VALID.upper(), VALID.replace("-", "_"),
        f"ff-{TRACE}-{PARENT}-01", f"01-{TRACE}-{PARENT}-01x", f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE[:-1]}g-{PARENT}-01", f"00-{TRACE}-{PARENT}-0 ",
    ],
)  # fmt: skip
def test_trace_context_that_is_not_valid_is_none(value: object) -> None:
    assert read_context(value, "congo=1") is None


def test_trace_state_that_is_too_long_is_left_out() -> None:
    found = read_context(VALID, "a=" + "b" * STATE_MOST)
    assert found.state == ""
