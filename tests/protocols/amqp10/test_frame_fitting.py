"""Frames of a peer that takes only small ones: what is left out, and what closes the connection."""

from __future__ import annotations

from penstock.protocols.amqp10.frame_fitting import fitted
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_composite
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section


def test_what_fits_stays_as_it_is() -> None:
    flow = composite(
        spec.FLOW,
        incoming_window=1,
        next_outgoing_id=0,
        outgoing_window=1,
        properties={Symbol("a"): "b" * 400},
    )
    octets = fitted(flow, 512)
    assert octets is not None
    assert decode_composite(octets)[0] == flow


def test_properties_maps_and_reasons_are_left_out_where_frames_are_small() -> None:
    attach = composite(
        spec.ATTACH,
        name="a",
        handle=0,
        role=True,
        properties={Symbol("a"): "b" * 600},
        unsettled={bytes([n]) * 32: None for n in range(20)},
    )
    error = composite(spec.ERROR, condition="amqp:not-allowed", description="d" * 300, info={Symbol("gate"): "g" * 300})
    rejected = composite(
        spec.DISPOSITION, role=True, first=0, settled=True, state=composite(spec.REJECTED, error=error)
    )
    for performative in (attach, rejected, composite(spec.DETACH, handle=0, error=error)):
        octets = fitted(performative, 512)
        assert octets is not None
        assert len(octets) <= 504
    shortened = decode_composite(fitted(attach, 512) or b"")[0]
    assert (shortened.text("name"), shortened.flag("incomplete_unsettled")) == ("a", True)


def test_rejection_reaches_a_peer_with_the_smallest_frames() -> None:
    client = Amqp10Dialogue(max_frame_size=512)
    name = "q" * 250
    client.declare(name, capacity_messages=1, hold_deadline=1.0)
    client.driver.begin(100.0)
    client.attach_sender(f"/queues/{name}")
    client.say(client.transfer(data_section(b"x")), client.transfer(data_section(b"y")))
    heard = client.listen(102.0)
    assert "amqp:resource-limit-exceeded" in [condition(each) for each in heard if each.name == "disposition"]


def test_attach_that_cannot_be_answered_closes_the_connection() -> None:
    client = Amqp10Dialogue(max_frame_size=512)
    client.declare("q")
    (closed,) = client.attach_receiver("/queues/q", name="n" * 600)
    assert (closed.name, condition(closed)) == ("close", "amqp:frame-size-too-small")
