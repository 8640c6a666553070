"""Windows of a session: frames counted both ways, and renewed in time."""

from __future__ import annotations

from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section, names, performative, sender


def test_window_is_renewed_before_the_end_of_the_window() -> None:
    client = sender()
    said = b"".join(client.transfer(data_section(b"x"), settled=True) for _ in range(2049))
    flows = [each for each in client.say(said) if each.name == "flow" and each.field("handle") is None]
    assert [(each.field("next_incoming_id"), each.field("incoming_window")) for each in flows] in ([(2049, 4096)], [])
    session = client.connection.engine.session(0)
    assert session is not None
    assert client.depth("q") == 2049


def test_flow_that_has_counted_frames_which_were_not_sent_ends_the_session() -> None:
    client = Amqp10Dialogue()
    wrong = performative(spec.FLOW, next_incoming_id=5, incoming_window=9, next_outgoing_id=0, outgoing_window=9)
    (ended,) = client.say(wrong)
    assert (ended.name, condition(ended)) == ("end", "amqp:session:window-violation")
    assert client.say(performative(spec.END)) == []
    assert names(client.begin(0)) == ["begin"]


def test_echo_is_answered() -> None:
    client = Amqp10Dialogue()
    (flow,) = client.say(
        performative(spec.FLOW, next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, echo=True)
    )
    assert (flow.name, flow.field("incoming_window"), flow.field("handle")) == ("flow", 4096, None)
    assert not flow.performative.flag("echo")
