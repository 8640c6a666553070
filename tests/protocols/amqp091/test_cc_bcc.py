"""CC and BCC where they are looked for: in the octets, at the gates, and for a message that has no channel."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.message import BCC_KEY_OVERHEAD, BCC_OVERHEAD
from penstock.protocols.amqp091.cc_bcc import copies_of, may_have_cc, without_blind_copies
from penstock.protocols.amqp091.content_frames import body_of, make_content, properties_of
from penstock.protocols.common.single_publish import SinglePublish
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Properties, encode_header, frame, method_frame
from tests.profiles import examples
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver
from tests.wire.amqp091.test_content_header import properties

NAMES = st.sampled_from(["CC", "BCC", "cc", "C", "CCC", "xCC", "BC", "B", ""])
VALUES = st.one_of(st.sampled_from(["CC", "\x02CC", "\x03BCC", 5]), st.lists(st.sampled_from(["a", "CC"]), max_size=2))


@settings(max_examples=examples(1000), derandomize=True, database=None)
@given(properties(), st.dictionaries(NAMES, VALUES, max_size=4), st.binary(max_size=20))
def test_neither_is_overlooked_and_without_bcc_all_else_is_as_it_was(
    made: Properties, headers: dict[str, object], body: bytes
) -> None:
    made.headers = headers
    content = make_content(made, body)
    named = may_have_cc(content, 19, len(content) - len(body))
    assert named or not {"CC", "BCC"} & set(headers)
    value = headers.get("CC")
    assert copies_of(content) == (value if isinstance(value, list) else [])
    made.headers = {name: value for name, value in headers.items() if name != "BCC"}
    bare = without_blind_copies(content)
    assert bare == make_content(made, body)
    assert (properties_of(bare), body_of(bare)) == (made, body)


def published(headers: dict[str, object], exchange: str = "amq.direct", key: str = "a") -> bytes:
    content = frame(spec.FRAME_HEADER, 1, encode_header(1, Properties(headers=headers)))
    return (
        method_frame(1, spec.BASIC_PUBLISH, exchange=exchange, routing_key=key)
        + content
        + frame(spec.FRAME_BODY, 1, b"x")
    )


def bound(dialogue: Dialogue, *queues: str) -> None:
    for queue in queues:
        dialogue.say(method_frame(1, spec.QUEUE_DECLARE, queue=queue))
        dialogue.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="amq.direct", routing_key=queue))


def test_every_copy_is_charged_the_same_and_who_keeps_blind_keys_pays_for_them() -> None:
    driver = make_driver()
    dialogue = Dialogue(driver)
    bound(dialogue, "a", "b", "c")
    queues = driver.broker.vhosts["/"].queues
    headers: dict[str, object] = {"CC": ["b"], "BCC": ["c", "none"]}
    dialogue.say(published(headers))
    plain = 240 + 1 + len(encode_header(1, Properties(headers=headers))) - 12
    charges = {int(queues[name].bytes) for name in "abc"}
    assert charges == {plain + BCC_OVERHEAD + 2 * BCC_KEY_OVERHEAD}


def test_they_pass_the_gate_of_every_queue_and_are_held_where_one_is_closed() -> None:
    driver = make_driver()
    dialogue = Dialogue(driver)
    bound(dialogue, "a")
    dialogue.say(method_frame(1, spec.QUEUE_DECLARE, queue="full", arguments={"capacity-messages": 1}))
    dialogue.say(method_frame(1, spec.CONFIRM_SELECT))
    assert dialogue.names(published({}, "", "full")) == ["connection.blocked"], "its confirmation is withheld"
    assert dialogue.names(published({"BCC": ["full"]}, "", "a")) == []
    queues = driver.broker.vhosts["/"].queues
    assert (queues["a"].messages, queues["full"].messages) == (0, 1), "it goes into both or waits for both"
    dialogue.say(method_frame(1, spec.BASIC_GET, queue="full", no_ack=True))
    assert (queues["a"].messages, queues["full"].messages) == (1, 1)


def test_a_message_without_a_channel_has_them_too() -> None:
    driver = make_driver()
    dialogue = Dialogue(driver)
    bound(dialogue, "a", "b", "c")
    vhost = driver.broker.vhosts["/"]
    SinglePublish(driver.single_publishes, access_of(driver.broker), "here").send(
        vhost, "amq.direct", "a", Properties(headers={"CC": ["b"], "BCC": ["c"]}), b"x"
    )
    assert [int(vhost.queues[name].messages) for name in "abc"] == [1, 1, 1]
    assert properties_of(vhost.queues["c"].ready_queue.ready[0].content).headers == {"CC": ["b"]}


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_a_key_that_is_too_long_for_a_name_is_refused(header: str) -> None:
    driver = make_driver()
    dialogue = Dialogue(driver)
    bound(dialogue, "a")
    assert dialogue.names(published({header: ["k" * 255]})) == []
    assert dialogue.names(published({header: ["k" * 256]})) == ["channel.close"]
    assert int(driver.broker.vhosts["/"].queues["a"].messages) == 1
