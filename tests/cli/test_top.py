"""`penstock top` and `penstock watch` as text and JSON without a terminal, and `watch` in a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.commands import run, started, told
from tests.support.terminals import in_terminal


def test_top_without_a_terminal_is_one_picture_with_blocking_queues_first(own_broker: BrokerProcess) -> None:
    broker = own_broker
    run(broker, "declare", "queue", "calm", "capacity-messages=8")
    run(broker, "declare", "queue", "full", "capacity-messages=8", "hold-deadline=600")
    run(broker, "publish", "calm", *"abc")
    publisher = started(broker, "publish", "full", *"abcdefghijklmn")
    eventually(lambda: "blocks 1 producer" in run(broker, "top"), "a blocked producer")
    head, blocked, heads, first, second = run(broker, "top").splitlines()
    assert re.fullmatch(
        r"vhost /: 2 queues \(1 closed\), 11 messages, in [\d.]+/s, out [\d.]+/s, 2 connections, 0 unacknowledged, "
        r"2\.6 KiB, longest turn [\d.]+ ms, penstock \S+",
        head,
    )
    assert "queue full blocks 1 producer; start a consumer of queue full" in blocked
    assert re.split(" {2,}", heads)[:4] == ["queue", "fill", "gate", "blocked"]
    assert re.split(" {2,}", first)[:3] == ["full", "██████████ 100 %", "closed"]
    assert re.split(" {2,}", second)[:3] == ["calm", "███▊", "38 %"]
    limited = run(broker, "top", "--limit", "1").splitlines()
    assert limited[-1] == "and 1 more queue; --limit shows more"
    answer = told(broker, "top", "--order", "messages", "--everywhere")
    assert [each["name"] for each in answer["top"]["items"]] == ["full", "calm"]
    assert answer["why"]["gates"][0]["name"] == "full"
    run(broker, "consume", "full", "--ack", "--count", "14")
    publisher.communicate()
    assert publisher.returncode == 0
    assert "no producer is blocked" in run(broker, "top")


def test_watch_prints_a_line_for_each_sample(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=10")
    run(broker, "publish", name, "a")
    assert re.fullmatch(r"\d\d:\d\d:\d\d  1 message  243 B  10 % full .*gate open  0 producers blocked\n",
                        run(broker, "watch", name))  # fmt: skip
    lines = run(broker, "watch", name, "--json", "--count", "2", "--interval", "0.1").splitlines()
    assert [json.loads(line)["depth"]["messages"] for line in lines] == [1, 1]
    assert "no queue 'none'" in run(broker, "watch", "none", code=1)


def test_watch_redraws_in_a_terminal_and_waits_for_a_lost_broker(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        run(broker, "declare", "queue", "kept", "--durable", "capacity-messages=10")
        with in_terminal("watch", "kept", "--url", broker.url, "--interval", "0.1", columns=80) as terminal:
            terminal.wait(lambda text: re.search("depth +▁▁", text), "two samples")
            run(broker, "publish", "kept", "--persistent", "a", "b", "c", "d", "e")
            text = terminal.wait(lambda text: re.search("depth .*▅", text), "the new depth")
            assert "kept: 5 messages, " in text
            assert text.count("depth") == 1, "one picture"
            assert "0 to 5" in text
            port = broker.port
            assert broker.stop() == 0
            terminal.wait(lambda text: "no answer, asking again: " in text, "the loss")
            with serving(tmp_path, "--data", str(tmp_path / "data"), listen=(f"127.0.0.1:{port}",)):
                terminal.wait(lambda text: "no answer" not in text and "▅" in text, "the broker is back")
                terminal.press("\x03")
                assert terminal.ended() == 130
