"""Publishing: user_id, reply_to, CC and BCC, properties of routes, returns, and direct reply-to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connections.single_publish import SinglePublish
from penstock.content.properties import Properties
from penstock.core.message import BCC_KEY_OVERHEAD, BCC_OVERHEAD
from penstock.core.routing.route import route_for
from penstock.core.vhost import REPLY_TO
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.content_frames import body_of, make_content, properties_of
from penstock.protocols.amqp091.message_format import copies_of, may_have_cc, without_blind_copies
from penstock.protocols.amqp091.publishing import check_user_id_and_reply_to, property_mask, route_variant
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.profiles import examples
from tests.support.access_of import access_of
from tests.support.driven_connection import (
    Dialogue,
    make_driver,
    mandatory,
    methods,
    publish,
    refused,
    stopped_publisher,
)
from tests.support.topology import checked_route
from tests.wire.amqp091.test_content_header import properties


def around(**more: str) -> Properties:
    """Return properties before and after the ones that are checked."""
    return Properties("text", None, {"a": 1}, 2, 5, "c", message_id="m", timestamp=7, type="t", app_id="app", **more)


def test_content_without_reply_to_or_with_the_own_user_is_unchanged() -> None:
    channel = Dialogue(make_driver()).connection.engine.channels[1]
    for made in (Properties(), around(), around(user_id="guest"), around(reply_to="queue", user_id="guest")):
        content = make_content(made, b"body")
        assert check_user_id_and_reply_to(channel, content) is content


def test_another_user_is_refused() -> None:
    channel = Dialogue(make_driver()).connection.engine.channels[1]
    with pytest.raises(PreconditionFailed, match="user_id property set to 'root' but authenticated user was 'guest'"):
        check_user_id_and_reply_to(channel, make_content(around(user_id="root"), b""))


def test_direct_reply_to_is_replaced_by_the_address_alone() -> None:
    dialogue = Dialogue(make_driver())
    channel = dialogue.connection.engine.channels[1]
    content = make_content(around(reply_to=REPLY_TO), b"body")
    with pytest.raises(PreconditionFailed, match="fast reply consumer does not exist"):
        check_user_id_and_reply_to(channel, content)
    dialogue.say(method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True))
    checked = check_user_id_and_reply_to(channel, content)
    assert properties_of(checked) == around(reply_to=channel.replies_to())
    assert body_of(checked) == b"body"


NAMES = st.sampled_from(["CC", "BCC", "cc", "C", "CCC", "xCC", "BC", "B", ""])
VALUES = st.one_of(st.sampled_from(["CC", "\x02CC", "\x03BCC", 5]), st.lists(st.sampled_from(["a", "CC"]), max_size=2))


@settings(max_examples=examples(1000), derandomize=True, database=None)
@given(properties(), st.dictionaries(NAMES, VALUES, max_size=4), st.binary(max_size=20))
def test_cc_is_found_and_bcc_removed_without_further_changes(
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
    return publish(key, b"x", properties=Properties(headers=headers), exchange=exchange)


def bound(dialogue: Dialogue, *queues: str) -> None:
    for queue in queues:
        dialogue.say(method_frame(1, spec.QUEUE_DECLARE, queue=queue))
        dialogue.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="amq.direct", routing_key=queue))


def test_copies_are_charged_equally_with_the_blind_keys_of_the_message(driver: BrokerDriver) -> None:
    dialogue = Dialogue(driver)
    bound(dialogue, "a", "b", "c")
    queues = driver.broker.vhosts["/"].queues
    headers: dict[str, object] = {"CC": ["b"], "BCC": ["c", "none"]}
    dialogue.say(published(headers))
    plain = 240 + 1 + len(encode_header(1, Properties(headers=headers))) - 12
    charges = {int(queues[name].bytes) for name in "abc"}
    assert charges == {plain + BCC_OVERHEAD + 2 * BCC_KEY_OVERHEAD}


def test_copies_pass_the_gates_of_their_queues_and_are_held_at_a_closed_gate(driver: BrokerDriver) -> None:
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


def test_cc_and_bcc_of_a_message_without_a_channel_are_routed(driver: BrokerDriver) -> None:
    dialogue = Dialogue(driver)
    bound(dialogue, "a", "b", "c")
    vhost = driver.broker.vhosts["/"]
    SinglePublish(driver.single_publishes, access_of(driver.broker), "here").send(
        vhost, "amq.direct", "a", Properties(headers={"CC": ["b"], "BCC": ["c"]}), b"x"
    )
    assert [int(vhost.queues[name].messages) for name in "abc"] == [1, 1, 1]
    assert properties_of(vhost.queues["c"].ready_queue.ready[0].content).headers == {"CC": ["b"]}


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_cc_key_beyond_the_limit_is_refused(header: str, driver: BrokerDriver) -> None:
    dialogue = Dialogue(driver)
    bound(dialogue, "a")
    assert dialogue.names(published({header: ["k" * 255]})) == []
    assert dialogue.names(published({header: ["k" * 256]})) == ["channel.close"]
    assert int(driver.broker.vhosts["/"].queues["a"].messages) == 1


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(properties(), st.booleans(), st.none() | st.integers(0, 1 << 32).map(str), st.integers(0, 9))
def test_variant_is_that_of_the_decoded_properties(made: Properties, checks: bool, ttl: str | None, at: int) -> None:
    made.expiration = ttl
    plain = checked_route(checks)
    data = b"." * at + make_content(made, b"body")
    try:
        expected = route_for(plain, made)
    except PreconditionFailed:
        with pytest.raises(PreconditionFailed):
            route_variant(plain, data, at)
        return
    assert route_variant(plain, data, at) is expected


def test_delivery_mode_matters_only_with_a_store() -> None:
    assert (property_mask(checked_route(True)), property_mask(checked_route(False))) == (0x1900, 0x0900)


def test_refused_mandatory_message_is_returned_before_the_nack() -> None:
    peer = stopped_publisher(make_driver())
    assert peer.say(mandatory(b"second")) == []
    frames = peer.listen(110.0)
    returned, nack = methods(frames)
    assert (returned.name, returned.args["reply_code"], returned.args["routing_key"]) == ("basic.return", 506, "q")
    assert returned.args["reply_text"] == (
        "RESOURCE_ERROR - refused after its hold deadline of 5 s; queue 'q' holds 1 message, 247 bytes (closed above 0 "
        "messages, opens at 0 messages, capacity 10 messages)"
    )
    assert [payload for kind, _, payload in frames if kind == spec.FRAME_BODY] == [b"second"]
    assert (nack.name, nack.args["delivery_tag"], nack.args["multiple"]) == ("basic.nack", 2, False)


def test_refused_message_without_mandatory_is_only_nacked() -> None:
    peer = stopped_publisher(make_driver())
    peer.say(publish("q", b"second"))
    assert [method.name for method in methods(peer.listen(110.0))] == ["basic.nack"]


def test_client_that_takes_a_return_for_success_only_gets_the_nack() -> None:
    peer = stopped_publisher(make_driver(), product="aiormq")
    peer.say(mandatory(b"second"))
    assert [method.name for method in methods(peer.listen(110.0))] == ["basic.nack"]
    unroutable = methods(peer.say(mandatory(b"third", "nowhere")))
    assert [method.name for method in unroutable] == ["basic.return", "basic.ack"], "that is as with RabbitMQ"


def test_publish_beyond_the_hold_budget_is_returned_and_nacked(driver: BrokerDriver) -> None:
    peer = stopped_publisher(driver)
    peer.say(method_frame(1, spec.QUEUE_DECLARE, queue="own"))
    peer.say(method_frame(1, spec.BASIC_CONSUME, queue="own"))
    bound = peer.connection.pausing.budget.bound
    peer.say(mandatory(b"x" * 100_000) * (int(bound) // 100_000))
    came = methods(peer.say(mandatory(b"x" * 100_000)))
    assert [method.name for method in came] == ["basic.return", "basic.nack"]
    assert "are held already; queue 'q' holds 1 message" in str(came[0].args["reply_text"])


def test_direct_reply_to_delivers_replies_to_the_consuming_channel(driver: BrokerDriver) -> None:
    client, server = Dialogue(driver), Dialogue(driver)
    assert client.names(method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True)) == ["basic.consume-ok"]
    (address,) = driver.broker.vhost("/").replies
    assert address.startswith(REPLY_TO + ".")
    server.say(publish(address, b"answer"))
    delivered, _, body = client.listen()
    assert decode_method(delivered[2]).name == "basic.deliver"
    assert body[2] == b"answer"


def test_direct_reply_to_requires_no_ack_and_a_single_consumer() -> None:
    client = Dialogue(make_driver())
    _, code, text = refused(client, method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO))
    assert (code, text) == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
    client = Dialogue(make_driver())
    consume = method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True)
    assert client.names(consume) == ["basic.consume-ok"]
    assert refused(client, consume)[2] == "PRECONDITION_FAILED - reply consumer already set"


def test_direct_reply_to_addresses_end_with_the_channel() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True))
    close = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert client.names(close) == ["channel.close-ok"]
    assert not client.driver.broker.vhost("/").replies


def full_queue() -> tuple[BrokerDriver, Dialogue]:
    """A queue of one message, which is full, and a client that has published into it."""
    driver = make_driver(now=100.0)
    peer = Dialogue(driver).declare("q", capacity_messages=1, hold_deadline=5)
    peer.say(publish("q", b"1"))
    return driver, peer


def test_publish_held_before_confirm_select_passes_without_a_number() -> None:
    driver, peer = full_queue()
    peer.say(publish("q", b"2"))
    peer.say(method_frame(1, spec.CONFIRM_SELECT))
    peer.say(publish("q", b"3"))
    queue = driver.broker.vhosts["/"].queues["q"]
    queue.purge(driver.broker.now)
    assert "basic.ack" not in [method.name for method in methods(peer.listen(100.1))]
    confirms: list[Method] = []
    for now in (100.2, 100.3):
        queue.purge(driver.broker.now)
        confirms += [method for method in methods(peer.listen(now)) if method.name == "basic.ack"]
    assert [method.args["delivery_tag"] for method in confirms] == [1]


def test_publish_held_before_confirm_select_closes_the_channel_at_the_deadline() -> None:
    _, peer = full_queue()
    peer.say(publish("q", b"2"))
    peer.say(method_frame(1, spec.CONFIRM_SELECT))
    (closed,) = [method for method in methods(peer.listen(105.0)) if method.name == "channel.close"]
    assert closed.args["reply_code"] == 506


def test_channel_is_blocked_and_unblocked_once_for_the_connection() -> None:
    driver, peer = full_queue()
    for body in (b"2", b"3"):
        peer.say(publish("q", body))
    assert (peer.connection.blocks, peer.connection.reported_blocks) == (1, 1)
    for _ in range(3):
        driver.broker.vhosts["/"].queues["q"].purge(driver.broker.now)
        driver.run_turn()
    assert (peer.connection.blocks, peer.connection.reported_blocks) == (0, 0)
    lines = [line.text for line in driver.log_queue.take()]
    assert sum("CHN-1005" in line for line in lines) == 1
    assert sum("CHN-1006" in line for line in lines) == 1


def test_channel_publisher_confirms_a_run_of_publishes_with_a_single_frame() -> None:
    client = Dialogue(make_driver()).declare("q").confirm()
    (frame,) = client.say(b"".join(publish("q", b"x") for _ in range(3)))
    method = decode_method(frame[2])
    assert (method.name, method.args["delivery_tag"], method.args["multiple"]) == ("basic.ack", 3, True)


def test_channel_publisher_is_nacked_by_a_full_queue() -> None:
    client = Dialogue(make_driver()).declare("q", capacity_messages=1, overflow="reject").confirm()
    assert sorted(client.names(publish("q", b"x") + publish("q", b"x"))) == ["basic.ack", "basic.nack"]


def test_channel_publisher_without_confirms_gets_no_answer() -> None:
    client = Dialogue(make_driver()).declare("q")
    assert client.say(publish("q", b"x")) == []


def test_channel_publisher_to_a_missing_exchange_closes_the_channel() -> None:
    client = Dialogue(make_driver())
    assert client.names(publish("q", b"x", exchange="none")) == ["channel.close"]
