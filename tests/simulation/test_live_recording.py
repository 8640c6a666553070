"""Recorded loads of a real broker and real clients, beside their replays with the same capacity and with others.

The short run replays made-up logs: tests/simulation/test_recording.py.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.client.errors import ConnectionClosed
from penstock.logs import flowlog
from penstock_simulation.recording import Recording, record
from tests.support.brokers import serving
from tests.support.raw_channel import Connection

pytestmark = pytest.mark.long

WINDOW, STEP = 30, 10
CAPACITY, RESUME = 200, 50
"""Messages at which the queue is full, and percent of them at which its gate opens."""
WAVE, WAVE_RATE = 750, 750.0
"""Messages of a wave, and how many of them come in a second."""
WAVE_CAPACITY = 950
"""Messages: a wave does not close the gate, and with half of it closes it once."""
WAVE_RESUME = 25
Consume = Callable[[Any, Path], None]


def publish(port: int) -> None:
    """Publish for ever in a closed loop: five messages whenever the window has room for them."""
    with suppress(ConnectionClosed), Connection(f"amqp://127.0.0.1:{port}") as connection:
        channel = connection.channel()
        confirms = channel.confirm_select()
        while True:
            connection.wait_for(lambda: confirms.outstanding <= WINDOW - 5, "room in the window", 600)
            for _ in range(5):
                channel.publish(bytes(500), routing_key="q")


def publish_wave(port: int) -> None:
    """Publish a wave at its rate, whatever is confirmed of it."""
    with Connection(f"amqp://127.0.0.1:{port}") as connection:
        channel = connection.channel()
        confirms = channel.confirm_select()
        begin = time.monotonic()
        for number in range(WAVE):
            while (early := begin + number / WAVE_RATE - time.monotonic()) > 0:
                connection.turn(early)
            channel.publish(bytes(500), routing_key="q")
        connection.wait_for(lambda: not confirms.outstanding, "confirms of all", 600)


def consume(channel: Any, log: Path) -> None:
    """Work on each message for two milliseconds, settle ten at once, until the log has five looks at an overload."""
    channel.basic_qos(prefetch_count=4 * STEP)
    for method, _, _ in channel.consume("q"):
        time.sleep(0.002)
        if method.delivery_tag % STEP == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
            if sum("unconfirmed" in each for each in flowlog.read(log)) >= 5:
                return


def consume_wave(channel: Any, log: Path) -> None:
    """Work on each message of a wave for eight milliseconds, settle ten at once, until the log has the last one."""
    channel.basic_qos(prefetch_count=4 * STEP)
    for method, _, _ in channel.consume("q"):
        time.sleep(0.008)
        if method.delivery_tag % STEP == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if method.delivery_tag == WAVE:
            break
    while sum(int(each.get("settled_messages", 0)) for each in flowlog.read(log)) < WAVE:
        channel.connection.process_data_events(0.1)


def live(folder: Path, capacity: int, resume: int, producers: list[Callable[[int], None]], consume: Consume) -> Path:
    """Run a broker with a queue, producers and a consumer; return its flow log."""
    folder.mkdir(exist_ok=True)
    log = folder / "data" / "flow-log"
    limits = {"capacity-messages": capacity, "stop-percent": 80, "resume-percent": resume}
    with serving(folder, "--data", str(folder / "data")) as broker:
        link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=0))
        channel = link.channel()
        channel.queue_declare("q", arguments=limits)
        threads = [threading.Thread(target=each, args=[broker.port], daemon=True) for each in producers]
        for each in threads:
            each.start()
        consume(channel, log)
        assert broker.stop() == 0
        for each in threads:
            each.join()
        with suppress(pika.exceptions.AMQPError):
            link.process_data_events(None)
            link.close()
    return log


def end_of(log: Path) -> float:
    """Return when the last look at an overload was, in seconds since 1970; the broker needs some more to stop."""
    return max(float(each["wall"]) for each in flowlog.read(log) if "unconfirmed" in each)


def recorded(log: Path, end: float | None = None) -> Recording:
    return record(flowlog.read(log), "q", end=end)


def replayed(log: Path, capacity: int, end: float | None = None) -> dict[str, Any]:
    """Return what `penstock flow replay` says of a log, and of another capacity."""
    words = ["replay", str(log), "--queue", "q", "--set", f"capacity-messages={capacity}", "--json"]
    words += [] if end is None else ["--to", str(end)]
    found: dict[str, Any] = json.loads(CliRunner().invoke(main, words).output)
    return found


@pytest.fixture(scope="module")
def overload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record an overload by two producers in a closed loop."""
    return live(tmp_path_factory.mktemp("recorded"), CAPACITY, RESUME, [publish] * 2, consume)


def test_replay_of_an_overload_has_its_window_steps_and_crossings(overload: Path) -> None:
    end = end_of(overload)
    found = recorded(overload, end)
    assert (found.window, found.step) == (WINDOW, STEP)
    answer = replayed(overload, 2 * CAPACITY, end)
    measured, simulated = answer["recorded"], answer["simulated"]["outcome"]
    assert measured["crossings"] > 5
    for measure in ("crossings", "closed"):
        assert simulated[measure] == pytest.approx(measured[measure], rel=0.35), measure


def test_replay_of_an_overload_with_another_capacity_is_marked_as_a_bound(overload: Path, tmp_path: Path) -> None:
    for capacity in (CAPACITY // 2, 2 * CAPACITY):
        answer = replayed(overload, capacity, end_of(overload))
        assert answer["bound"]
        assert answer["changed"]["bound"]
        assert not answer["simulated"]["bound"], "what is simulated with the settings that were in force is compared"
        log = live(tmp_path / str(capacity), capacity, RESUME, [publish] * 2, consume)
        closed = recorded(log, end_of(log)).measures()["closed"]
        assert answer["changed"]["outcome"]["closed"] == pytest.approx(closed, rel=0.35)


def test_replay_of_a_load_without_blocks_predicts_half_and_double_the_capacity(tmp_path: Path) -> None:
    log = live(tmp_path / "recorded", WAVE_CAPACITY, WAVE_RESUME, [publish_wave], consume_wave)
    assert recorded(log).crossings == 0
    for capacity, crossings in ((WAVE_CAPACITY // 2, 1), (2 * WAVE_CAPACITY, 0)):
        answer = replayed(log, capacity)
        assert not answer["bound"]
        found = recorded(live(tmp_path / str(capacity), capacity, WAVE_RESUME, [publish_wave], consume_wave))
        assert found.crossings == crossings
        assert answer["changed"]["outcome"]["crossings"] == crossings
        assert answer["changed"]["outcome"]["closed"] == pytest.approx(found.measures()["closed"], abs=0.15)
