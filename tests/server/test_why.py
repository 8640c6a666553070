"""`penstock why` at a real broker: queues, connections, channels and users, as text and as JSON."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from pamqp import commands

from penstock import sync
from penstock.client.errors import ControlError
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving
from tests.support.raw_client import open_peer, publish_frames

PRODUCERS = 30


def test_why_names_the_blocks_of_connection_channel_and_user(
    own_broker: BrokerProcess, control: sync.Connection
) -> None:
    with open_peer(own_broker, properties={}) as peer:
        peer.declare_shared("orders", capacity_messages=4, stop_messages=2, resume_messages=0, hold_deadline=0)
        peer.declare_shared("empty")
        peer.confirm()
        peer.channel(2)
        peer.ask(2, commands.Basic.Consume(queue="empty", consumer_tag="idle"), commands.Basic.ConsumeOk)
        peer.say(b"".join(publish_frames(1, "", "orders", b"x") for _ in range(6)))
        answer = eventually(
            lambda: (found := control.why(channel="2/1").raw)["publishing"]["held"]["messages"] and found, "it"
        )
        eventually(lambda: "closed for" in own_broker.why("--channel", "2/1").splitlines()[0], "the gate has an age")
        name = answer["channel"].removesuffix("/ch:1")
        blocked = rf"{re.escape(name)}/ch:1 is blocked \d+\.\d s by queue orders: 4 messages > stop 2 \(opens at 0\), "
        blocked += r"closed for \d+\.\d s; 2 publishes are held \(486 bytes\); 2 confirmations are withheld"
        idle = f"consumer idle of {name}/ch:2 on queue empty: the queue is empty"
        for words in (("--connection", "2"), ("--connection", "con:2"), ("--connection", name), ("--user", "guest")):
            first, second, *rest = own_broker.why(*words).splitlines()
            assert re.fullmatch(blocked, first), first
            assert second == "queue orders has no consumer"
            assert idle in rest
        first, second = own_broker.why("--channel", f"{name}/ch:1").splitlines()
        assert re.fullmatch(blocked, first)
        assert own_broker.why("--channel", "con:2/ch:2").splitlines() == [idle]
        (gate,) = answer["publishing"]["blocked_by"]
        assert gate | {"blocked_for_s": 0, "total_s": 0, "gate": 0} == {
            "gate": 0, "producer": f"{name}/ch:1", "blocked_for_s": 0, "times": 1, "total_s": 0, "withheld": 2,
            "withheld_bytes": 486, "held": 2, "held_bytes": 486, "refused": 0, "refused_bytes": 0, "confirmed_late": 0,
            "stopped": False, "times_stopped": 0,
        }  # fmt: skip
        assert gate["gate"]["overshoot"]["messages"] == gate["gate"]["overshoot"]["bytes"] == 0
        assert (gate["gate"]["open"], gate["gate"]["blocked"], gate["gate"]["crossings"]) == (False, 1, 1)
        assert answer["publishing"]["waits_at"] == {"kind": "queue", "name": "orders"}
        whole = json.loads(own_broker.why("orders", "--json"))
        assert whole["gate"]["producers"] == whole["blocked"]
        assert whole["highest"] == {"messages": 4, "bytes": 972}
        assert whole["waits_for"] == []
        (idle_view,) = control.why("empty").raw["waits_for"]
        assert (idle_view["consumer"], idle_view["obstacles"]) == ("idle", ["the queue is empty"])


def test_reason_of_connection_blocked_is_that_of_why_with_the_deadline(
    own_broker: BrokerProcess, control: sync.Connection
) -> None:
    with open_peer(own_broker) as peer:
        peer.declare_shared("orders", capacity_messages=4, stop_messages=2)
        peer.say(b"".join(publish_frames(1, "", "orders", b"x") for _ in range(3)))
        told = peer.expect(0, commands.Connection.Blocked).reason
        (sentence, _) = control.why("orders").raw["sentences"]
        told, semicolon, until = told.partition("; ")
        assert (semicolon, until) == ("; ", "refused after 25 s")
        assert f"is blocked T by {told}" in re.sub(r"\d+\.\d s", "T", sentence)


def test_answer_of_why_is_bounded_with_the_longest_waiters_and_a_count(own_broker: BrokerProcess) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(open_peer(own_broker, properties={})) for _ in range(PRODUCERS)]
        peers[0].declare_shared("orders", capacity_messages=1, stop_messages=0, hold_deadline=0)
        for peer in peers:
            peer.say(publish_frames(1, "", "orders", b"x"))
            peer.is_well()
        *sentences, rest, waits = own_broker.why("orders").splitlines()
        assert len(sentences) == 10
        assert sentences[0].startswith("con:1(")
        assert rest == f"and {PRODUCERS - 10} more producers are blocked by queue orders"
        assert waits == "queue orders has no consumer"
        *sentences, rest, waits = own_broker.why("--user", "guest").splitlines()
        assert len(sentences) == 10
        assert rest == f"and {PRODUCERS - 10} more blocks"
        assert waits == "queue orders has no consumer"
        with connect(own_broker.url, protocol="amqp091") as control:
            answer = control.why(user="guest").raw
            assert (len(answer["connections"]), answer["more_connections"]) == (20, PRODUCERS - 20)
            assert control.why("orders").raw["gate"]["blocked"] == PRODUCERS


def test_paused_connection_says_so(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker, properties={}) as peer:
        peer.declare_shared("orders", capacity_messages=1)
        peer.say(b"".join(publish_frames(1, "", "orders", b"x" * 100_000) for _ in range(12)))
        first = eventually(
            lambda: (
                (lines := own_broker.why("--connection", "1").splitlines())[0].endswith("it is read in pulses")
                and lines
            ),
            "it",
        )[0]
        assert re.fullmatch(
            r"con:1\(.*\) is paused: it only publishes, and \d+ publishes \([\d,]+ bytes\) are held; "
            r"it is read in pulses",
            first,
        )


def test_missing_object_is_named(own_broker: BrokerProcess, control: sync.Connection) -> None:
    assert "no queue 'orders' in vhost '/'" in own_broker.refusal("why", "orders")
    assert "no connection '77'; the first of 2 are con:1(guest@" in own_broker.refusal("why", "--connection", "77")
    assert "con:1(guest@" in own_broker.refusal("why", "--channel", "con:1/ch:9")
    assert "has no channel 9" in own_broker.refusal("why", "--channel", "1/9")
    assert "'nine' is not a channel; write CONNECTION/CHANNEL, such as 2/1" in own_broker.refusal(
        "why", "--channel", "nine"
    )
    assert "user 'nobody' has no connection" in own_broker.refusal("why", "--user", "nobody")
    with pytest.raises(
        ControlError, match="name exactly one of queue, connection, channel, link, user; given are queue, user"
    ):
        control.request("why", queue="a", user="b")
    done = penstock_command("why", "orders", "--user", "guest", "--url", own_broker.url)
    assert done.returncode == 2
    assert "give only one of QUEUE, --connection, --channel, --link and --user" in done.stderr


def test_status_names_connections_as_why_takes_them(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker):
        done = penstock_command("status", "--url", broker.url)
        assert re.search(r"^con:1\(guest@127\.0\.0\.1:\d+/\) +running +bare socket +1 ", done.stdout, re.MULTILINE)
