"""Commands that publish, consume and get, against a broker on a real port."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, some_name
from tests.support.commands import run, started, told
from tests.support.stalls import undisturbed
from tests.support.terminals import in_terminal


def test_messages_go_in_and_come_out(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    assert run(broker, "publish", name, "one", "two") == "2 messages published\n"
    answer = told(broker, "publish", name, "grüße", "--persistent", "--content-type", "text/plain", "--header", "n=1")
    assert answer == {"published": 1, "confirmed": 1, "refused": 0, "unroutable": 0}
    assert run(broker, "get", name, "--count", "2") == "one\ntwo\n"
    message = json.loads(run(broker, "consume", name, "--count", "3", "--json").splitlines()[2])
    assert message["payload"] == "grüße"
    assert message["properties"] == {"content_type": "text/plain", "headers": {"n": 1}, "delivery_mode": 2}
    assert run(broker, "get", name, "--ack") == "one\n"
    assert run(broker, "consume", name, "--ack", "--count", "2", "--timeout", "60") == "two\ngrüße\n"
    assert run(broker, "consume", name, "--ack", "--timeout", "0.2") == ""
    assert "has no ready message; `penstock queues list` shows unacknowledged ones" in run(broker, "get", name, code=1)
    run(broker, "publish", name, "again")
    assert run(broker, "purge", name) == f"queue {name} is purged of 1 message\n"


def test_files_and_pipes_are_published_line_by_line_or_whole(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    run(broker, "declare", "queue", name)
    file = tmp_path / "orders.txt"
    file.write_bytes(b"one\r\n\ntwo\nlast")
    run(broker, "publish", name, "--file", str(file))
    run(broker, "publish", name, "--file", str(file), "--whole")
    assert run(broker, "consume", name, "--count", "5", "--ack") == "one\n\ntwo\nlast\none\n\ntwo\nlast\n"
    with started(broker, "publish", name) as process:
        process.stdin.write("from a pipe\n")
        process.stdin.flush()
        eventually(lambda: broker.depth(name) == 1, "it is published while the pipe is open")
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert "cannot read" in run(broker, "publish", name, "--file", str(tmp_path / "none"), code=1)
    assert (
        run(broker, "publish", name, "x", "--whole", code=1)
        == "penstock: BODY and --file (or --whole) exclude each other: give bodies or a file\n"
    )


def test_publish_command_reports_held_and_refused_messages(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2")
    run(broker, "set", "queue", name, "hold-deadline=0")
    with started(broker, "publish", name, "one", "two", "three") as process:
        assert process.stdout is not None
        held = process.stderr.readline()
        assert held.startswith(f"penstock: waiting: queue {name}: 2 messages > stop 1")
        run(broker, "set", "queue", name, "hold-deadline=1.5")  # For what waits already, too.
        assert process.wait(PATIENCE) == 1
        assert process.stdout.read().startswith(
            "2 messages published; 1 refused (refused after its hold deadline of 1.5 s"
        )
    run(broker, "unset", "queue", name)
    nowhere = penstock_command("publish", f"{name}-none", "x", "--url", broker.url)
    lost = f"0 messages published; 1 reached no queue (NO_ROUTE); did you mean '{name}'?\n"
    assert (nowhere.returncode, nowhere.stdout) == (1, lost)
    assert "404" in run(broker, "publish", "k", "x", "--exchange", f"{name}-none", code=1)


def test_publish_says_each_period_by_how_long_a_message_is_delayed(broker: BrokerProcess, name: str) -> None:
    """The third document: the words of Qpid's client for Java, and its period as an option."""
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    with started(broker, "publish", name, "one", "two", "three", "--notice", "0.2") as process:
        assert process.stderr.readline().startswith(f"penstock: waiting: queue {name}: 2 messages > stop 1")
        notices = [process.stderr.readline() for _ in range(3)]
        run(broker, "get", name, "--ack", "--count", "2")
        assert process.wait(PATIENCE) == 0
    words = re.compile(
        r"penstock: Message send delayed by ([0-9.]+)s due to broker enforced flow control: queue (\S+): 2 messages > "
    )
    delays = []
    for notice in notices:
        said = words.match(notice)
        assert said is not None, notice
        assert said[2] == name
        delays.append(float(said[1]))
    assert delays == sorted(set(delays))
    assert all(abs(delay / 0.2 - round(delay / 0.2)) < 1e-6 for delay in delays), "whole periods"


def test_publish_without_notices_reports_the_gate_once(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    said = run(broker, "publish", name, "one", "two", "three", "--notice", "0", "--timeout", "2", code=1)
    assert "delayed by" not in said


def test_publish_with_a_timeout_is_given_up_while_it_is_held(broker: BrokerProcess) -> None:
    undisturbed(lambda: publish_with_a_timeout(broker, some_name("q")), broker)


def publish_with_a_timeout(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    lines = run(broker, "publish", name, "one", "two", "three", "--timeout", "2", code=1).splitlines()
    assert lines[0].startswith(f"penstock: waiting: queue {name}: 2 messages > stop 1")
    refused = lines[-1]
    assert refused.startswith(
        f"penstock: gave up: the broker confirmed nothing for 2 s: queue {name}: 2 messages > stop 1"
    )
    assert refused.endswith("; 2 of 3 messages are confirmed, and those without an answer may still be accepted")
    assert broker.depth(name) == 2


def test_publish_whose_connection_ends_reports_confirmed_messages(own_broker: BrokerProcess) -> None:
    run(own_broker, "declare", "queue", "q", "capacity-messages=2", "hold-deadline=60")
    with started(own_broker, "publish", "q", "one", "two", "three") as process:
        assert process.stderr.readline().startswith("penstock: waiting: queue q: 2 messages > stop 1")
        assert own_broker.stop() == 0
        assert process.wait(PATIENCE) == 1
        said = process.stderr.read()
    assert said.startswith("penstock: the connection is closed: CONNECTION_FORCED - broker is shutting down (320); ")
    assert said.endswith("2 of 3 messages are confirmed, and those without an answer may still be accepted\n")


def test_interrupted_consumer_requeues_its_messages(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two")
    with started(broker, "consume", name) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == "penstock: interrupted: 2 messages printed, requeued\n"
    queue = broker.queue(name)
    assert (queue["depth"]["messages"], queue["unacknowledged"]["messages"]) == (2, 0)


def test_consumer_whose_queue_goes_says_so(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    with started(broker, "consume", name, "--ack") as process:
        eventually(lambda: broker.queue(name)["consumers"] == 1, "it consumes")
        run(broker, "delete", "queue", name)
        assert process.wait(PATIENCE) == 1
        assert process.stderr.read().splitlines() == [
            "penstock: 0 messages printed, 0 acknowledged",
            f"penstock: queue '{name}' was deleted",
        ]


def test_consumer_that_acknowledges_counts_messages_in_its_last_line(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two", "three")
    words = ("consume", name, "--ack", "--count", "2", "--url", broker.url)
    done = penstock_command(*words)
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    assert done.stderr == "penstock: 2 messages printed, 2 acknowledged\n"
    assert broker.depth(name) == 1


def test_interrupted_publisher_counts_confirmed_and_unknown_messages(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    for more in ((), ("--json",)):
        run(broker, "purge", name)
        bodies = [json.dumps({"payload": each}) if more else each for each in ("one", "two", "three", "four")]
        with started(broker, "publish", name, *more) as process:
            process.stdin.write("".join(f"{body}\n" for body in bodies))
            process.stdin.flush()
            assert process.stderr.readline().startswith(f"penstock: waiting: queue {name}: ")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
            last = process.stderr.read().splitlines()[-1]
            out = process.stdout.read()
        assert last == "penstock: interrupted: 2 confirmed, 2 unknown; unknown messages may be in their queues"
        if more:
            answer = json.loads(out)
            assert (answer["published"], answer["confirmed"], answer["unknown"]) == (4, 2, 2)
            assert answer["error"] == "interrupted"
        else:
            assert out == ""


def test_publisher_on_a_terminal_has_a_line_of_progress_no_wider_than_it(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    words = ("queues", "publish", name, "one", "two", "three", "--url", broker.url)
    with in_terminal(*words, columns=50, lines=24) as terminal:
        terminal.wait(lambda text: "3 published, 2 confirmed, waiting: " in text, "the progress")
        line = terminal.line("3 published")
        assert line.rstrip().endswith("…")
        terminal.press("\x03")
        assert terminal.ended() == 130
        assert terminal.line("penstock: interrupted: 2 confirmed, 1 unknown")
