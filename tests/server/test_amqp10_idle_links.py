"""Links of AMQP 1.0 that have taken all room of a queue and answer no drain, on a broker with sockets and a clock."""

from __future__ import annotations

from pathlib import Path

import pika

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp10_socket import SocketPeer
from tests.support.brokers import serving

LINKS = 40


def test_links_that_answer_no_drain_leave_their_room_to_a_sender_that_waits(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        arguments = {"capacity-messages": 20, "stop-messages": 20, "resume-messages": 20}
        connection.channel().queue_declare("q", arguments=arguments)
        with SocketPeer(broker) as silent, SocketPeer(broker) as busy:
            for handle in range(LINKS):
                silent.attach_sender(handle, composite(spec.TARGET, address="/queues/q"))
            granted = 0
            while granted < 20:
                granted += silent.await_one("flow").performative.number("link_credit", 0)
            busy.attach_sender(LINKS, composite(spec.TARGET, address="/queues/q"))
            flow = busy.await_one("flow").performative
            while flow.number("link_credit", 0) == 0:
                flow = busy.await_one("flow").performative
            busy.send(busy.transfer(LINKS, data_section(b"x")))
            state = busy.await_one("disposition").performative.fields["state"]
            assert getattr(state, "name", None) == "accepted"
            drained = silent.await_one("flow").performative
            while not drained.fields["drain"]:
                drained = silent.await_one("flow").performative
        connection.close()
