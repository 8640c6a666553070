"""channel.flow and connection.blocked on the wire: who is asked to stop, and which gate is named."""

from __future__ import annotations

import time
from pathlib import Path

import pika
from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection
from tests.support.raw_client import CAPABILITIES, open_peer, publish_frames

OBEYS = {"product": "obedient", "capabilities": CAPABILITIES | {"channel.flow": True}}
GATED = {"capacity-messages": 10, "stop-messages": 0, "resume-messages": 0, "hold-deadline": 0}


def test_channel_flow_stops_the_blocked_channel_with_confirms_and_no_other(broker: BrokerProcess) -> None:
    with open_peer(broker, properties=OBEYS) as peer:
        stopped, other = peer.confirm(), peer.confirm(peer.channel(2))
        full, free = peer.declare(**GATED), peer.declare()
        peer.say(publish_frames(stopped, "", full, b"1"))
        assert not peer.expect(stopped, commands.Channel.Flow).active
        assert full in str(peer.expect(0, commands.Connection.Blocked).reason)
        peer.send(stopped, commands.Channel.FlowOk(active=False))
        peer.say(publish_frames(other, "", free, b"2"))
        assert peer.expect(other, commands.Basic.Ack).delivery_tag == 1
        peer.send(other, commands.Queue.Purge(queue=full))
        found = [peer.read_method() for _ in range(4)]
        assert {(number, method.name) for number, method in found} == {
            (other, "Queue.PurgeOk"),
            (stopped, "Channel.Flow"),
            (stopped, "Basic.Ack"),
            (0, "Connection.Unblocked"),
        }
        assert next(method for _, method in found if isinstance(method, commands.Channel.Flow)).active


def test_channel_flow_is_enforced_after_the_seconds_of_its_setting(tmp_path: Path) -> None:
    environment = {"PENSTOCK_FLOW_ENFORCEMENT_S": "1"}
    with serving(tmp_path, environment=environment) as broker, open_peer(broker, properties=OBEYS) as peer:
        peer.confirm()
        full = peer.declare(**GATED)
        peer.say(publish_frames(1, "", full, b"1"))
        peer.expect(1, commands.Channel.Flow)
        peer.expect(0, commands.Connection.Blocked)
        time.sleep(1.1)
        peer.say(publish_frames(1, "", full, b"2"))
        assert peer.refused(1) == (
            506,
            "RESOURCE_ERROR - channel.flow was requested, but the client went on publishing",
        )
        eventually(lambda: "CHN-1012" in broker.log(), "the log names who ignored it")


def test_second_reason_reaches_pika_when_the_named_gate_has_opened(broker: BrokerProcess, name: str) -> None:
    reasons: list[str] = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.add_on_connection_blocked_callback(lambda _, frame: reasons.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda *_: reasons.append("unblocked"))
        channel, admin = connection.channel(), connection.channel()
        for queue in (f"{name}-a", f"{name}-b"):
            channel.queue_declare(queue, exclusive=True, arguments=GATED)
            channel.basic_publish("", queue, b"x")

        def named(count: int) -> bool:
            connection.process_data_events(0.05)
            return len(reasons) >= count

        eventually(lambda: named(1), "connection.blocked")
        admin.queue_purge(f"{name}-a")
        eventually(lambda: named(2), "connection.blocked with the other reason")
        admin.queue_purge(f"{name}-b")
        eventually(lambda: named(3), "connection.unblocked")
    assert [reason.partition(":")[0] for reason in reasons] == [f"queue {name}-a", f"queue {name}-b", "unblocked"]


def test_blocked_channel_has_the_state_flow_over_http(served: BrokerProcess, web: Web, name: str) -> None:
    with named_connection(served.url, name) as connection:
        blocked, other = connection.channel(), connection.channel()
        other.queue_declare(name, exclusive=True, arguments=GATED)
        blocked.basic_publish("", name, b"x")
        (mine,) = [each for each in web.get("/connections") if each["user_provided_name"] == name]
        path = "/connections/" + mine["name"].replace("/", "%2F") + "/channels"

        def states() -> dict[int, str]:
            return {each["number"]: each["state"] for each in web.get(path)}

        eventually(lambda: states() == {1: "flow", 2: "running"}, "the state of the blocked channel")
        (name_of,) = [each["name"] for each in web.get(path) if each["number"] == 1]
        assert web.get("/channels/" + name_of.replace("/", "%2F"))["state"] == "flow"
        other.queue_purge(name)
        assert states() == {1: "running", 2: "running"}
