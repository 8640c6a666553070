"""connection.blocked and connection.unblocked: their times and reasons."""

from __future__ import annotations

import pytest

from penstock.connections.client_profiles import AMQP_0_9_1, PROFILES
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.closed_publishers import notices, recording_driver
from tests.support.driven_connection import Dialogue, drain, make_driver, methods, publish

GATED = {"capacity_messages": 10, "stop_messages": 0, "resume_messages": 0, "hold_deadline": 5}


def test_connection_blocked_names_the_time_until_which_a_publish_is_held() -> None:
    driver = make_driver(now=100.0)
    peer = Dialogue(driver).declare("q", **GATED).confirm()
    (blocked,) = methods(peer.say(publish("q", b"x")))
    assert blocked.args["reason"] == ("queue q: 1 messages > stop 0 (opens at 0); refused after 5 s")


def test_blocked_notice_without_confirms_waits_50_ms_in_all() -> None:
    driver = recording_driver()
    client = Dialogue(driver).declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) == pytest.approx(0.05)
    driver.begin(100.03)
    assert notices(client, publish("q", b"2")) == pytest.approx(0.02)
    driver.begin(100.05)
    assert notices(client, publish("q", b"3")) == 0
    assert [decode_method(payload).name for _, _, payload in client.listen(100.05)] == ["connection.blocked"]


def test_notice_that_waits_is_not_put_off_by_another_reason() -> None:
    driver = recording_driver()
    client = Dialogue(driver)
    for queue in ("a", "b"):
        client.declare(queue, capacity_messages=1, hold_deadline=0)
    notices(client, publish("a", b"1"))
    driver.begin(100.03)
    notices(client, publish("b", b"2"))
    drain(driver, "a")
    assert notices(client, b"") == pytest.approx(0.02)
    assert reasons(client, 100.1) == ["queue b"]


def test_blocked_notice_is_written_before_reading_is_paused() -> None:
    driver = recording_driver()
    client = Dialogue(driver).declare("q", capacity_messages=1)
    sent = b"".join(publish("q", bytes(100_000)) for _ in range(30))
    assert notices(client, publish("q", b"1") + sent) > 0
    assert client.connection.pausing.budget.bytes > 2 * driver.connection_limits.hold_bytes
    assert not client.connection.may_pause()
    assert reasons(client, 100.1) == ["queue q"]
    assert not client.connection.may_pause(), "it may finish what it is sending when it is told"
    client.say(b"".join(publish("q", bytes(100_000)) for _ in range(10)))
    assert not client.connection.may_pause()
    client.say(publish("q", bytes(100_000)))
    assert client.connection.may_pause()


def test_hold_budget_is_the_usual_budget_after_an_unblocked_notice() -> None:
    driver = recording_driver()
    client = Dialogue(driver).declare("q", capacity_messages=1)
    notices(client, publish("q", b"1") + b"".join(publish("q", bytes(100_000)) for _ in range(30)))
    assert reasons(client, 100.1) == ["queue q"]
    told = []
    for _ in range(32):
        drain(driver, "q")
        told += reasons(client, 100.2)
    assert client.connection.pausing.budget.bytes == 0
    assert told == [""]
    client.say(method_frame(1, spec.CONFIRM_SELECT))
    client.say(publish("q", b"2") + publish("q", b"3"))
    client.say(b"".join(publish("q", bytes(100_000)) for _ in range(10)))
    assert not client.connection.may_pause()
    client.say(publish("q", bytes(100_000)))
    assert client.connection.may_pause()


def test_blocked_notice_bounds_the_input_read_before() -> None:
    driver = recording_driver()
    client = Dialogue(driver).declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1") + publish("q", bytes(5_000_000))) > 0
    assert client.connection.may_pause()


def test_notice_may_be_unread_only_where_no_confirms_are_awaited() -> None:
    driver = recording_driver()
    client, confirming = Dialogue(driver), Dialogue(driver)
    client.declare("q", capacity_messages=1)
    confirming.confirm()
    assert not client.connection.losses.may_be_unread
    notices(client, publish("q", b"1"))
    assert notices(confirming, publish("q", b"2")) == 0
    assert client.connection.losses.may_be_unread
    assert not confirming.connection.losses.may_be_unread


def test_blocked_notice_goes_with_an_answer_and_never_waits_with_confirms() -> None:
    driver = recording_driver()
    client = Dialogue(driver).declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    assert notices(client, method_frame(1, spec.BASIC_QOS)) == 0
    assert client.names(b"") == ["connection.blocked", "basic.qos-ok"]
    confirming = Dialogue(driver)
    confirming.confirm()
    assert notices(confirming, publish("q", b"2")) == 0


def gated(*queues: str, obeys: bool = False) -> tuple[BrokerDriver, Dialogue]:
    """A client with confirms, and queues that close with their first message and hold for ever."""
    driver = make_driver(now=100.0)
    peer = Dialogue(driver, obeys=obeys)
    for queue in queues:
        peer.declare(queue, **GATED | {"hold_deadline": 0})
    peer.confirm()
    return driver, peer


def reasons(peer: Dialogue, now: float) -> list[str]:
    """Return the queues that the notices at a time name; empty for connection.unblocked."""
    notices = [method for method in methods(peer.listen(now)) if method.name.startswith("connection.")]
    return [str(method.args.get("reason", "")).partition(":")[0] for method in notices]


def test_another_reason_follows_when_the_named_gate_opens_and_another_blocks() -> None:
    driver, peer = gated("a", "b", "c")
    assert [method.name for method in methods(peer.say(publish("a", b"1") + publish("b", b"2")))] == [
        "connection.blocked"
    ]
    drain(driver, "a")
    assert reasons(peer, 102.0) == ["queue b"]
    peer.say(publish("c", b"3"))
    drain(driver, "c")
    assert reasons(peer, 104.0) == [], "the named gate still blocks"
    drain(driver, "b")
    assert reasons(peer, 106.0) == [""]


def test_reason_names_the_gate_of_another_channel_after_that_of_the_first_has_opened() -> None:
    driver, peer = gated("a", "b")
    peer.names(method_frame(2, spec.CHANNEL_OPEN) + method_frame(2, spec.CONFIRM_SELECT))
    peer.say(publish("a", b"1"))
    peer.say(publish("b", b"2", channel=2))
    drain(driver, "a")
    assert reasons(peer, 102.0) == ["queue b"]


def test_reason_stays_while_another_channel_is_blocked_by_the_named_gate() -> None:
    driver, peer = gated("a", "b")
    peer.names(method_frame(2, spec.CHANNEL_OPEN) + method_frame(2, spec.CONFIRM_SELECT))
    peer.say(publish("a", b"1") + publish("a", b"2", channel=2) + publish("b", b"3", channel=2))
    peer.say(method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0))
    assert reasons(peer, 102.0) == []
    drain(driver, "a")
    assert reasons(peer, 104.0) == ["queue b"]


def test_reason_names_the_gate_of_a_held_publish_once_the_named_gate_has_opened() -> None:
    driver, peer = gated("a")
    peer.declare("b", capacity_messages=1, hold_deadline=0)
    peer.say(publish("a", b"1") + publish("b", b"2") + publish("b", b"held"))
    drain(driver, "a")
    assert reasons(peer, 102.0) == ["queue b"]


def test_reason_names_the_gate_of_the_next_held_publish_once_the_first_opened() -> None:
    driver, peer = gated()
    for queue in ("a", "b"):
        peer.declare(queue, capacity_messages=1, hold_deadline=0)
    peer.say(publish("a", b"1") + publish("b", b"2") + publish("a", b"held") + publish("b", b"held"))
    drain(driver, "a")
    peer.listen(102.0)
    drain(driver, "a")
    assert reasons(peer, 104.0) == ["queue b"]


def test_another_reason_follows_a_notice_after_a_second_at_the_earliest() -> None:
    driver, peer = gated("a", "b", "c")
    peer.say(publish("a", b"1") + publish("b", b"2") + publish("c", b"3"))
    drain(driver, "a")
    assert reasons(peer, 100.5) == []
    drain(driver, "b")
    assert reasons(peer, 100.9) == []
    assert reasons(peer, 101.0) == ["queue c"], "only the one that blocks then"
    peer.say(publish("a", b"4") + publish("b", b"5"))
    for step in range(1, 10):
        drain(driver, "b")
        peer.say(publish("b", b"6"))
        assert reasons(peer, 101.0 + step / 100) == [], "a gate that flips and was not named changes nothing"


def test_blocked_notice_withdrawn_unsent_keeps_the_last_reason_sent() -> None:
    driver = recording_driver()
    client = Dialogue(driver)
    for queue in ("a", "b"):
        client.declare(queue, capacity_messages=1, hold_deadline=0)
    assert notices(client, publish("a", b"1")) > 0
    client.connection.take_output()
    driver.begin(101.8)
    client.say(publish("b", b"2"))
    drain(driver, "a")
    driver.begin(102.0)
    while driver.run_turn():
        pass
    assert client.connection.engine.output_delay(102.0) > 0, "another reason, which waits"
    drain(driver, "b")
    assert [method.name for method in methods(client.listen(102.1))] == ["connection.unblocked"]


def test_renewal_of_the_reason_leaves_no_timer_after_the_connection() -> None:
    driver, peer = gated("a", "b")
    peer.say(publish("a", b"1") + publish("b", b"2"))
    drain(driver, "a")
    assert reasons(peer, 100.5) == []
    assert driver.broker.timers.next() == 101.0
    driver.disconnect(peer.connection)
    assert driver.broker.timers.next() is None


KNOWN = [row.product for row in PROFILES.values() if row.protocol == AMQP_0_9_1]
STOPS = ["", "rabbitmq-client", "lapin"]
"""Products of clients that may write nothing while they are blocked: an unknown one, and two that do so."""


class Library:
    """A client library beside the broker, which does after connection.blocked what its profile says."""

    def __init__(self, driver: BrokerDriver, product: str, confirms: bool) -> None:
        platform = "" if product not in PROFILES else PROFILES[product].platform
        self.peer = Dialogue(driver, product=product, platform=platform)
        self.profile = PROFILES.get(product)
        self.blocked = False
        self.unwritten = b""
        self.received = 0
        self.confirmed = 0
        self.to_acknowledge: list[object] = []
        if confirms:
            self.peer.confirm()

    def write(self, data: bytes) -> None:
        stops = self.profile is None or self.profile.stops_writing
        if self.blocked and stops:
            self.unwritten += data
        else:
            data, self.unwritten = self.unwritten + data, b""
            self._hear(self.peer.say(data))
        self._hear(self.peer.listen())

    def _hear(self, frames: list[tuple[int, int, bytes]]) -> None:
        for method in methods(frames):
            if method.name in ("connection.blocked", "connection.unblocked"):
                self.blocked = method.name == "connection.blocked"
                assert self.profile is None or not self.profile.fails_when_blocked
            elif method.id == spec.BASIC_DELIVER:
                self.received += 1
                self.to_acknowledge.append(method.args["delivery_tag"])
            elif method.id == spec.BASIC_ACK:
                tag, multiple = method.args["delivery_tag"], method.args["multiple"]
                assert isinstance(tag, int)
                self.confirmed = tag if multiple else self.confirmed + 1
            else:
                assert method.id in (spec.BASIC_CONSUME_OK, spec.CHANNEL_FLOW), method

    def acknowledge(self) -> None:
        tags, self.to_acknowledge = self.to_acknowledge, []
        self.write(b"".join(method_frame(1, spec.BASIC_ACK, delivery_tag=tag) for tag in tags))


@pytest.mark.parametrize("confirms", [True, False], ids=["confirms", "plain"])
@pytest.mark.parametrize("product", ["", "one more", *KNOWN])
def test_consumer_and_publisher_of_a_full_queue_on_the_same_connection_continue(product: str, confirms: bool) -> None:
    driver = make_driver(now=100.0)
    Dialogue(driver).declare("q", capacity_messages=20, hold_deadline=5)
    client = Library(driver, product, confirms)
    client.peer.say(method_frame(1, spec.BASIC_QOS, prefetch_count=5))
    client.write(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c"))
    client.write(b"".join(publish("q", b"%d" % number) for number in range(200)))
    for _ in range(200):
        client.acknowledge()
    assert (client.received, client.confirmed) == (200, 200 if confirms else 0)
    assert client.peer.vhost.queues["q"].messages == 0


CONSUME = method_frame(1, spec.BASIC_CONSUME, queue="other", consumer_tag="c")
USES = {
    "consumer": CONSUME,
    "delivery": publish("other", b"x") + method_frame(1, spec.BASIC_GET, queue="other"),
    "polling": method_frame(1, spec.BASIC_GET, queue="other", no_ack=True),
    "confirms": method_frame(1, spec.CONFIRM_SELECT),
    "confirms of another channel": method_frame(2, spec.CHANNEL_OPEN) + method_frame(2, spec.CONFIRM_SELECT),
    "transaction": method_frame(1, spec.TX_SELECT),
}
"""Uses of a connection besides publishing without confirms."""


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("product", STOPS)
def test_client_that_may_stop_writing_gets_no_notice_while_consuming(product: str, use: str) -> None:
    driver = make_driver(now=100.0)
    client = Dialogue(driver, product=product).declare("q", capacity_messages=1, hold_deadline=0).declare("other")
    client.say(USES[use])
    heard = methods(client.say(publish("q", b"1") + publish("q", b"2") + method_frame(1, spec.BASIC_QOS)))
    assert "connection.blocked" not in [method.name for method in [*heard, *methods(client.listen(101.0))]]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("product", STOPS)
def test_unblocked_notice_precedes_the_answer_to_a_new_kind_of_use(product: str, use: str) -> None:
    driver = make_driver(now=100.0)
    client = Dialogue(driver, product=product).declare("q", capacity_messages=1, hold_deadline=0).declare("other")
    assert [method.name for method in methods(client.say(publish("q", b"1")))] == ["connection.blocked"]
    heard = [method.name for method in methods(client.say(USES[use]))]
    heard = [name for name in heard if name != "channel.open-ok"]
    assert heard[0] == "connection.unblocked"
    assert "connection.blocked" not in heard


@pytest.mark.parametrize("product", STOPS)
def test_unsent_notice_is_dropped_for_a_client_that_begins_to_consume(product: str) -> None:
    driver = recording_driver()
    client = Dialogue(driver, product=product).declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    consume = method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c")
    assert [method.name for method in methods(client.say(consume))] == ["basic.consume-ok", "basic.deliver"]


@pytest.mark.parametrize("product", STOPS)
def test_client_that_stops_consuming_is_notified_of_a_closed_gate(product: str) -> None:
    driver = make_driver(now=100.0)
    client = Dialogue(driver, product=product).declare("q", capacity_messages=1, hold_deadline=0).declare("other")
    client.say(CONSUME)
    assert methods(client.say(publish("q", b"1"))) == []
    client.say(method_frame(1, spec.BASIC_CANCEL, consumer_tag="c"))
    assert client.connection.engine.may_be_silent()
    client.say(CONSUME)
    assert not client.connection.engine.may_be_silent()
    client.say(method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0))
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    assert methods(client.say(publish("q", b"2", channel=2)))[0].name == "connection.blocked"


@pytest.mark.parametrize("product", [*STOPS, "Pika Python Client Library"])
def test_silence_of_a_client_that_was_asked_to_stop_is_no_time_out(product: str) -> None:
    driver = make_driver(now=100.0)
    client = Dialogue(driver, product=product, heartbeat=2).declare("q", capacity_messages=1, hold_deadline=0)
    client.say(publish("q", b"1") + publish("q", b"2"))
    for second in range(101, 130):
        client.listen(float(second))
    stops = product in STOPS
    assert (driver.take_silent() == []) is stops
    for _ in range(2):
        drain(driver, "q")
        client.listen()
    for second in range(130, 140):
        client.listen(float(second))
    assert driver.take_silent() == ([client.connection] if stops else [])


def test_php_amqplib_gets_no_notice_because_publishes_would_fail() -> None:
    driver = make_driver(now=100.0)
    client = Dialogue(driver, product="AMQPLib", platform="PHP").declare("q", capacity_messages=1, hold_deadline=0)
    assert methods(client.say(publish("q", b"1") + publish("q", b"2"))) == []
    assert methods(client.listen(101.0)) == []
