"""channel.flow and connection.blocked on the wire: the clients that are asked to stop, and the named gate."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection
from tests.support.raw_client import CAPABILITIES, open_peer, publish_frames

OBEYS = {"product": "obedient", "capabilities": CAPABILITIES | {"channel.flow": True}}
GATED = {"capacity-messages": 10, "stop-messages": 0, "resume-messages": 0, "hold-deadline": 0}


def test_channel_flow_is_enforced_after_the_seconds_of_its_setting(tmp_path: Path) -> None:
    environment = {"PENSTOCK_FLOW_ENFORCEMENT_S": "1"}
    with serving(tmp_path, environment=environment) as broker, open_peer(broker, properties=OBEYS) as peer:
        peer.confirm()
        full = peer.declare(**GATED)
        peer.say(publish_frames(1, "", full, b"1"))
        peer.expect(1, commands.Channel.Flow)
        time.sleep(1.1)
        peer.say(publish_frames(1, "", full, b"2"))
        assert peer.refused(1) == (
            506,
            "RESOURCE_ERROR - channel.flow was requested, but the client went on publishing",
        )
        eventually(lambda: "CHN-1012" in broker.log(), "the log names who ignored it")


def test_blocked_channel_has_the_state_flow_over_http(served: BrokerProcess, web: Web, name: str) -> None:
    with named_connection(served.url, name) as connection:
        blocked, other = connection.channel(), connection.channel()
        other.queue_declare(name, exclusive=True, arguments=GATED)
        blocked.basic_publish("", name, b"x")
        (mine,) = [each for each in web.get("/connections") if each["user_provided_name"] == name]
        path = "/connections/" + quote(mine["name"], safe="") + "/channels"

        def states() -> dict[int, str]:
            return {each["number"]: each["state"] for each in web.get(path)}

        eventually(lambda: states() == {1: "flow", 2: "running"}, "the state of the blocked channel")
        (name_of,) = [each["name"] for each in web.get(path) if each["number"] == 1]
        assert web.get("/channels/" + quote(name_of, safe=""))["state"] == "flow"
        other.queue_purge(name)
        assert states() == {1: "running", 2: "running"}
