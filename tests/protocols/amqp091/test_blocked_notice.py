"""connection.blocked and connection.unblocked: when they are sent, and what they say."""

from __future__ import annotations

import pytest

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.closed_publishers import notices, recording_driver
from tests.support.driven_connection import Dialogue, make_driver, methods, publish

GATED = {"capacity_messages": 10, "stop_messages": 0, "resume_messages": 0, "hold_deadline": 5}


def test_connection_blocked_says_until_when_a_publish_is_held() -> None:
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver)
    peer.declare("q", **GATED)
    peer.confirm()
    (blocked,) = methods(peer.say(publish("q", b"x")))
    assert blocked.args["reason"] == (
        "queue q: 1 messages > stop 0 (opens at 0), closed for 0.0 s; what is held for 5 s is refused"
    )


def test_a_notice_to_a_publisher_without_confirms_waits_for_a_moment_after_its_last_publish() -> None:
    driver = recording_driver()
    client = Dialogue(driver)
    client.declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) == pytest.approx(0.5)
    driver.begin(100.4)
    assert notices(client, publish("q", b"2")) == pytest.approx(0.5)
    driver.begin(100.8)
    assert notices(client, publish("q", b"3")) == pytest.approx(0.2), "after a second it goes out, whatever comes"
    driver.begin(101.0)
    assert notices(client, b"") == 0
    assert [decode_method(payload).name for _, _, payload in client.listen(101.0)] == ["connection.blocked"]


def test_a_notice_that_waits_goes_with_any_answer_and_never_waits_where_confirms_or_consumers_are() -> None:
    driver = recording_driver()
    client = Dialogue(driver)
    client.declare("q", capacity_messages=1)
    assert notices(client, publish("q", b"1")) > 0
    assert notices(client, method_frame(1, spec.BASIC_QOS)) == 0
    assert client.names(b"") == ["connection.blocked", "basic.qos-ok"]
    confirming = Dialogue(driver)
    confirming.confirm()
    assert notices(confirming, publish("q", b"2")) == 0
