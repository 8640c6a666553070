"""The methods of class tx."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, Frame, drain, make_driver, methods, publish, refused


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


def answers(frames: list[Frame]) -> list[str]:
    """Return the methods that answer requests."""
    return [method.name for method in methods(frames) if method.name.startswith(("basic.", "tx."))]


def retrying() -> Dialogue:
    """A client that may commit again, on a transactional channel; queue q has room for one of its two messages."""
    driver = make_driver()
    driver.begin(100.0)
    client = Dialogue(driver, announces=("penstock.tx_commit_retry",))
    client.declare("q", capacity_messages=2, stop_messages=2, resume_messages=2, hold_deadline=5)
    client.say(publish("q", b"before"))
    client.say(method_frame(1, spec.TX_SELECT) + publish("q", b"one") + publish("q", b"two"))
    return client


def test_methods_of_tx_answer_a_refused_commit_with_the_reason_and_a_nack_that_names_no_tag() -> None:
    client = retrying()
    assert "basic.nack" not in client.names(method_frame(1, spec.TX_COMMIT))
    frames = client.listen(105.1)
    returned, nack = [each for each in methods(frames) if each.name.startswith("basic.")]
    assert (returned.name, returned.args["reply_code"], returned.args["exchange"], returned.args["routing_key"]) == (
        "basic.return", 506, "", "",
    )  # fmt: skip
    assert str(returned.args["reply_text"]).startswith(
        "RESOURCE_ERROR - commit refused after its hold deadline of 5 s and not rolled back; queue 'q' holds 1 message"
    )
    assert [kind for kind, _, _ in frames if kind != spec.FRAME_METHOD] == [spec.FRAME_HEADER], "an empty content"
    assert (nack.args["delivery_tag"], nack.args["multiple"], nack.args["requeue"]) == (0, True, False)
    drain(client.driver, "q")
    assert "tx.commit-ok" in client.names(method_frame(1, spec.TX_COMMIT))
    assert client.driver.broker.vhost("/").queue("q").messages == 2


def test_methods_of_tx_roll_back_after_a_refused_commit() -> None:
    client = retrying()
    client.say(method_frame(1, spec.TX_COMMIT))
    client.listen(105.1)
    assert client.names(method_frame(1, spec.TX_ROLLBACK)) == ["tx.rollback-ok"]
    drain(client.driver, "q")
    assert "tx.commit-ok" in client.names(method_frame(1, spec.TX_COMMIT))
    assert client.driver.broker.vhost("/").queue("q").messages == 0


def test_methods_of_tx_answer_in_order_although_a_refusal_is_known_before_a_withheld_answer() -> None:
    """The first commit closes the gate of r, which withholds its answer for longer than the second may wait."""
    client = retrying()
    client.say(method_frame(1, spec.TX_ROLLBACK))
    client.names(method_frame(2, spec.CHANNEL_OPEN) + publish("q", b"second", channel=2))
    client.declare("r", capacity_messages=5, stop_messages=0, resume_messages=0, hold_deadline=60)
    client.say(publish("r", b"withheld") + method_frame(1, spec.TX_COMMIT))
    client.say(publish("q", b"held") + method_frame(1, spec.TX_COMMIT) + method_frame(1, spec.TX_ROLLBACK))
    assert answers(client.listen(107.0)) == []
    drain(client.driver, "r")
    assert answers(client.listen(108.0)) == ["tx.commit-ok", "basic.return", "basic.nack", "tx.rollback-ok"]
    drain(client.driver, "q")
    assert answers(client.say(method_frame(1, spec.TX_COMMIT))) == ["tx.commit-ok"]
    assert client.driver.broker.vhost("/").queue("q").messages == 0, "the rollback came after the refused commit"


def test_methods_of_tx_close_the_channel_of_a_client_without_the_capability() -> None:
    driver = make_driver()
    driver.begin(100.0)
    client = Dialogue(driver)
    client.declare("q", capacity_messages=2, hold_deadline=5)
    client.say(publish("q", b"before"))
    client.say(method_frame(1, spec.TX_SELECT) + publish("q", b"one") + publish("q", b"two"))
    client.say(method_frame(1, spec.TX_COMMIT))
    closed = next(each for each in methods(client.listen(105.1)) if each.name == "channel.close")
    assert (closed.args["reply_code"], "and rolled back" in str(closed.args["reply_text"])) == (506, True)
    assert client.connection.pausing.budget.bytes == 0
