"""A recorded overload of a real broker and real clients, beside its replay."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from penstock import flowlog
from penstock.cli import main
from penstock.client.errors import ConnectionClosed
from penstock_simulation.recording import record
from tests.support.brokers import serving
from tests.support.raw_channel import Connection

WINDOW, STEP = 30, 10
ARGUMENTS = {"capacity-messages": 200, "stop-messages": 160, "resume-messages": 100}


def publish(port: int) -> None:
    with suppress(ConnectionClosed), Connection(f"amqp://127.0.0.1:{port}") as connection:
        channel = connection.channel()
        confirms = channel.confirm_select()
        while True:
            connection.wait_for(lambda: confirms.outstanding <= WINDOW - 5, "room in the window", 600)
            for _ in range(5):
                channel.publish(bytes(500), routing_key="q")


def consume(channel: Any, log: Path) -> None:
    """Work on each message for two milliseconds, settle ten at once, until the log has five looks at an overload."""
    channel.basic_qos(prefetch_count=4 * STEP)
    for method, _, _ in channel.consume("q"):
        time.sleep(0.002)
        if method.delivery_tag % STEP == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
            if sum("unconfirmed" in each for each in flowlog.read(log)) >= 5:
                return


@pytest.mark.once
def test_replay_of_an_overload_has_its_window_its_steps_its_crossings_and_its_closed_time(tmp_path: Path) -> None:
    log = tmp_path / "data" / "flow-log"
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=0))
        channel = link.channel()
        channel.queue_declare("q", arguments=ARGUMENTS)
        producers = [threading.Thread(target=publish, args=[broker.port], daemon=True) for _ in range(2)]
        for each in producers:
            each.start()
        consume(channel, log)
        assert broker.stop() == 0
        for each in producers:
            each.join()
        with suppress(pika.exceptions.AMQPError):
            link.process_data_events(None)
            link.close()
    found = record(flowlog.read(log), "q")
    assert (found.window, found.step) == (WINDOW, STEP)
    words = ["replay", str(log), "--queue", "q", "--set", "capacity-messages=400", "--json"]
    answer = json.loads(CliRunner().invoke(main, words).output)
    assert answer["bound"]
    recorded, simulated = answer["recorded"], answer["simulated"]["outcome"]
    assert recorded["crossings"] > 5
    # Clients in Python send in bursts after each opening, and the replay spreads them over a second: 1.0 to 1.5 times.
    assert simulated["crossings"] == pytest.approx(recorded["crossings"], rel=0.7)
    assert simulated["closed"] == pytest.approx(recorded["closed"], rel=0.35)
