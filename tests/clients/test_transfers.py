"""Moves and redrives as clients see them: Qpid Proton, pika, large messages, and brokers that stop or are killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pika
import pytest

from penstock.client.errors import ControlError
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.disk_brokers import kept
from tests.support.pika_helpers import channel_of

LARGE = 3 * 1024 * 1024 + 7
"""Bytes of a body that is stored in pieces."""


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    with serving(tmp_path) as process:
        yield process
        assert "Traceback" not in process.log()


def declare_dying(broker: BrokerProcess, queue: str, dead: str) -> None:
    with channel_of(broker) as channel:
        channel.queue_declare(dead, durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        channel.queue_declare(queue, durable=True, arguments=arguments)


@pytest.mark.clients
def test_redriven_message_of_proton_has_its_count_as_an_annotation(broker: BrokerProcess) -> None:
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    from proton.utils import BlockingConnection

    declare_dying(broker, "q", "dead")
    connection = BlockingConnection(broker.url.rstrip("/"), timeout=30, allowed_mechs="PLAIN")
    connection.create_sender("/queues/q").send(proton.Message(body="order", properties={"n": 1}))
    with connect(broker.url, protocol="amqp091") as control:
        for count in (1, 2):
            receiver = connection.create_receiver("/queues/q", credit=1)
            receiver.receive(30)
            receiver.reject()
            receiver.close()
            eventually(lambda: broker.depth("dead") == 1, "the message is dead")
            assert control.redrive_messages("dead")["redriven"] == 1
            receiver = connection.create_receiver("/queues/q", credit=1)
            message = receiver.receive(30)
            assert message.annotations["x-redrive-count"] == count
            assert (message.body, message.properties, message.delivery_count) == ("order", {"n": 1}, 0)
            receiver.release(delivered=False)
            receiver.close()
    connection.close()


def test_consumer_of_a_target_gets_moved_messages_at_once(broker: BrokerProcess) -> None:
    got: list[bytes] = []
    with channel_of(broker) as channel:
        for queue in ("a", "b"):
            channel.queue_declare(queue)
        for number in range(5):
            channel.basic_publish("", "a", b"%d" % number)
        with connect(broker.url, protocol="amqp091") as control:
            assert control.move_messages("a", "b")["moved"] == 5
        for _, _, body in channel.consume("b", inactivity_timeout=30):
            got.append(body)
            if len(got) == 5:
                break
        channel.cancel()
    assert got == [b"0", b"1", b"2", b"3", b"4"]


def test_held_move_goes_on_while_a_consumer_drains_its_target(broker: BrokerProcess) -> None:
    done: list[dict[str, object]] = []

    def move() -> None:
        with connect(broker.url, protocol="amqp091") as control:
            done.append(control.move_messages("a", "b"))

    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("a")
        channel.queue_declare("b", arguments={"capacity-messages": 3})
        for number in range(100):
            channel.basic_publish("", "a", b"%d" % number)
        mover = threading.Thread(target=move)
        mover.start()
        eventually(lambda: broker.depth("b") == 3, "the target is full")
        found = []
        for method, _, body in channel.consume("b", inactivity_timeout=30):
            channel.basic_ack(method.delivery_tag)
            found.append(body)
            if len(found) == 100:
                break
        mover.join(30)
    assert found == [b"%d" % number for number in range(100)]
    assert done[0]["moved"] == 100
    with connect(broker.url, protocol="amqp091") as control:
        [row] = [each for each in control.list("queues") if each["name"] == "b"]
        assert row["penstock"]["highest"]["messages"] <= 3


@pytest.mark.parametrize("copies", [False, True])
def test_large_message_is_whole_after_a_transfer_and_a_kill(tmp_path: Path, copies: bool) -> None:
    body = bytes(range(256)) * (LARGE // 256) + b"end"
    with kept(tmp_path) as broker:
        with channel_of(broker, confirms=True) as channel:
            for queue in ("a", "b"):
                channel.queue_declare(queue, durable=True)
            channel.basic_publish("", "a", body, pika.BasicProperties(delivery_mode=2))
        with connect(broker.url, protocol="amqp091") as control:
            if copies:
                assert control.copy_messages("a", "b")["copied"] == 1
                assert control.purge_queue("a") == 1
            else:
                assert control.move_messages("a", "b")["moved"] == 1
        broker.kill()
    with kept(tmp_path) as broker, channel_of(broker) as channel:
        assert broker.depth("a") == 0
        _, _, found = channel.basic_get("b", auto_ack=True)
        assert found == body


def test_broker_stops_while_a_job_is_held(tmp_path: Path) -> None:
    with kept(tmp_path) as broker:
        with channel_of(broker, confirms=True) as channel:
            channel.queue_declare("a", durable=True)
            channel.queue_declare("b", durable=True, arguments={"capacity-messages": 2})
            for number in range(5):
                channel.basic_publish("", "a", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        with connect(broker.url, protocol="amqp091") as control:
            job = control.move_messages("a", "b", detach=True)
            eventually(lambda: control.request("job.show", id=job["id"])["state"] == "held", "the job is held")
        assert broker.stop() == 0
    with kept(tmp_path) as broker:
        assert (broker.depth("a"), broker.depth("b")) == (3, 2)


def test_stream_is_a_target_and_is_copied_but_nothing_leaves_it(tmp_path: Path) -> None:
    with kept(tmp_path) as broker:
        with channel_of(broker, confirms=True) as channel:
            for queue in ("a", "b"):
                channel.queue_declare(queue, durable=True)
            channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
            for number in range(50):
                channel.basic_publish("", "a", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        with connect(broker.url, protocol="amqp091") as control:
            assert control.move_messages("a", "log")["moved"] == 50
            with pytest.raises(ControlError, match="no message leaves queue 'log', a stream: copy its messages"):
                control.move_messages("log", "b")
            assert control.copy_messages("log", "b")["copied"] == 50
        with channel_of(broker) as channel:
            found = [channel.basic_get("b", auto_ack=True)[2] for _ in range(50)]
        assert found == [b"%d" % number for number in range(50)]


def test_move_from_a_quorum_queue_takes_urgent_messages_first(broker: BrokerProcess) -> None:
    with channel_of(broker, confirms=True) as channel:
        channel.queue_declare("a", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("b")
        for number, priority in enumerate((0, 9, 0, 9)):
            channel.basic_publish("", "a", b"%d" % number, pika.BasicProperties(priority=priority))
        with connect(broker.url, protocol="amqp091") as control:
            assert control.move_messages("a", "b")["moved"] == 4
        found = [channel.basic_get("b", auto_ack=True)[2] for _ in range(4)]
    assert found == [b"1", b"3", b"0", b"2"]
