"""The methods of class tx."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish, refused


def test_methods_of_tx_are_answered_in_their_order() -> None:
    client = Dialogue(make_driver())
    data = b"".join(
        method_frame(1, each) for each in (spec.TX_SELECT, spec.TX_SELECT, spec.TX_COMMIT, spec.TX_ROLLBACK)
    )
    assert client.names(data) == ["tx.select-ok", "tx.select-ok", "tx.commit-ok", "tx.rollback-ok"]


def test_methods_of_tx_need_a_transactional_channel() -> None:
    for method in (spec.TX_COMMIT, spec.TX_ROLLBACK):
        client = Dialogue(make_driver())
        assert refused(client, method_frame(1, method)) == (
            "channel.close", 406, "PRECONDITION_FAILED - channel is not transactional",
        )  # fmt: skip


def test_methods_of_tx_exclude_confirms() -> None:
    client = Dialogue(make_driver())
    client.confirm()
    name, code, text = refused(client, method_frame(1, spec.TX_SELECT))
    assert (name, code) == ("channel.close", 406)
    assert "cannot switch from confirm to tx mode" in str(text)


def test_methods_of_tx_hold_publishes_until_the_commit() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    queue = client.driver.broker.vhost("/").queue("q")
    client.say(method_frame(1, spec.TX_SELECT) + publish("q", b"one"))
    assert queue.messages == 0
    assert client.names(method_frame(1, spec.TX_COMMIT)) == ["tx.commit-ok"]
    assert queue.messages == 1
