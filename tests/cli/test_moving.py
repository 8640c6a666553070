"""Command `messages move`: between two brokers of Penstock, and to and from RabbitMQ (PENSTOCK_BESIDE=rabbitmq)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving
from tests.support.commands import hear_interrupts
from tests.support.pika_helpers import channel_of

COUNT = 1_200
"""Messages of a move of several batches."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Two brokers."""
    with serving(tmp_path_factory.mktemp("old")) as old, serving(tmp_path_factory.mktemp("new")) as new:
        yield old, new
        for each in (old, new):
            assert "Traceback" not in each.log()


def fill(url: str, queue: str, count: int, **properties: object) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue)
        for number in range(count):
            given = pika.BasicProperties(message_id=str(number), **properties)
            channel.basic_publish("", queue, f"body {number}".encode(), given)


def taken(url: str, queue: str) -> list[tuple[str | None, bytes, pika.BasicProperties]]:
    """Take all messages of a queue."""
    found = []
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((properties.message_id, body, properties))


def move(old: str, new: str, queue: str, *words: str, code: int = 0) -> dict[str, object]:
    done = penstock_command(
        "messages", "move", "--from", queue, "--to", queue, "--from-url", old, "--to-url", new, "--json", *words
    )
    assert done.returncode == code, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def declared(url: str, *queues: str, **arguments: object) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for queue in queues:
            connection.channel().queue_declare(
                queue, arguments={name.replace("_", "-"): value for name, value in arguments.items()}
            )


def test_move_between_brokers_keeps_order_properties_and_headers(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    death = {"queue": "q", "reason": "rejected", "count": 1}
    fill(old.url, "whole", COUNT, headers={"n": 1, "x-death": [death]}, priority=3, delivery_mode=2, app_id="shop")
    declared(new.url, "whole")
    answer = move(old.url, new.url, "whole")
    assert (answer["moved"], answer["refused"], answer["doubtful"], answer["error"]) == (COUNT, 0, 0, None)
    found = taken(new.url, "whole")
    assert [name for name, _, _ in found] == [str(number) for number in range(COUNT)]
    assert found[7][1] == b"body 7"
    properties = found[0][2]
    assert properties.headers == {"n": 1, "x-death": [death]}
    assert (properties.priority, properties.delivery_mode, properties.app_id) == (3, 2, "shop")
    assert taken(old.url, "whole") == []


def test_move_of_a_number_leaves_the_others(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    fill(old.url, "some", 5)
    declared(new.url, "some")
    assert move(old.url, new.url, "some", "--count", "2")["moved"] == 2
    assert [name for name, _, _ in taken(old.url, "some")] == ["2", "3", "4"]
    assert [name for name, _, _ in taken(new.url, "some")] == ["0", "1"]


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_move_with_a_filter_leaves_messages_that_do_not_match(
    brokers: tuple[BrokerProcess, BrokerProcess], protocol: str
) -> None:
    old, new = brokers
    queue = f"filtered-{protocol}"
    fill(old.url, queue, 3, headers={"kind": "bill"})
    fill(old.url, queue, 2, headers={"kind": "note"})
    declared(new.url, queue)
    answer = move(f"{old.url}?protocol={protocol}", new.url, queue, "--filter", "kind = 'note'")
    assert answer["moved"] == 2
    assert len(taken(old.url, queue)) == 3
    assert len(taken(new.url, queue)) == 2


def test_headers_that_route_copies_and_foreign_users_are_left_out(
    brokers: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    old, new = brokers
    declared(old.url, "named", "copies")
    declared(new.url, "named", "copies")
    with channel_of(old, confirms=True) as channel:
        properties = pika.BasicProperties(headers={"CC": ["copies"]}, user_id="guest")
        channel.basic_publish("", "named", b"1", properties)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for words in (
        ("users", "add", "mover", "--password-file", str(secret)),
        ("permissions", "set", "mover", *[".*"] * 3),
    ):
        done = penstock_command(*words, "--url", new.url)
        assert done.returncode == 0, done.stderr
    answer = move(old.url, new.url.replace("guest:guest", "mover:secret"), "named")
    assert (answer["moved"], answer["left_out"]) == (1, {"CC": 1, "user_id": 1})
    [(_, _, found)] = taken(new.url, "named")
    assert (found.user_id, found.headers) == (None, {})
    assert taken(new.url, "copies") == []


def test_missing_queue_of_either_broker_is_refused_and_takes_nothing(
    brokers: tuple[BrokerProcess, BrokerProcess],
) -> None:
    old, new = brokers
    fill(old.url, "alone", 1)
    done = penstock_command(
        "messages", "move", "--from", "alone", "--to", "nowhere", "--from-url", old.url, "--to-url", new.url
    )
    assert done.returncode == 1
    assert "no queue 'nowhere'" in done.stderr
    assert len(taken(old.url, "alone")) == 1
    done = penstock_command("messages", "move", "--from", "alone", "--to", "alone", "--url", old.url)
    assert "cannot be moved onto itself" in done.stderr


def test_refused_messages_stay_and_are_counted(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    fill(old.url, "small", 5)
    declared(new.url, "small", x_max_length=2, x_overflow="reject-publish")
    answer = move(old.url, new.url, "small", code=1)
    assert (answer["moved"], answer["refused"]) == (2, 3)
    assert len(taken(old.url, "small")) == 3


def test_interrupted_move_prints_its_counts(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    fill(old.url, "held", 5)
    declared(new.url, "held", capacity_messages=2, hold_deadline=0)
    words = ["messages", "move", "--from", "held", "--to", "held", "--from-url", old.url, "--to-url", new.url, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("penstock: waiting: queue held")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("penstock: interrupted: ")
    assert err.splitlines()[-1].endswith("were on their way and may be in both queues")
    answer = json.loads(out)
    assert answer["error"] == "interrupted"
    assert answer["moved"] + answer["doubtful"] == 5
    eventually(lambda: old.depth("held") == 5, "the messages are back in their queue")


def test_move_of_all_queues_takes_those_that_both_brokers_have(tmp_path: Path) -> None:
    with serving(tmp_path) as old, serving(tmp_path) as new:
        for queue, count in (("a", 3), ("b", 2), ("old-only", 1)):
            fill(old.url, queue, count)
        declared(new.url, "a", "b", "new-only")
        done = penstock_command("messages", "move", "--all", "--from-url", old.url, "--to-url", new.url)
        assert (done.returncode, done.stdout) == (
            0, "5 messages moved, of 2 queues; 1 queue not moved, as the other broker has none: new-only\n",
        ), done.stderr  # fmt: skip
        assert [len(taken(new.url, queue)) for queue in ("a", "b", "new-only")] == [3, 2, 0]
        assert len(taken(old.url, "old-only")) == 1


def test_move_without_messages_says_why(tmp_path: Path) -> None:
    with serving(tmp_path) as old, serving(tmp_path) as new:
        words = ("messages", "move", "--from-url", old.url, "--to-url", new.url)
        done = penstock_command(*words, "--all")
        empty = "no message moved: the target has no queues; `penstock definitions import` makes them\n"
        assert (done.returncode, done.stdout) == (0, empty), done.stderr
        declared(old.url, "a", "b")
        declared(new.url, "a", "b")
        done = penstock_command(*words, "--all")
        assert (done.returncode, done.stdout) == (0, "no message moved: all 2 queues are empty\n"), done.stderr
        done = penstock_command(*words, "--from", "a")
        assert (done.returncode, done.stdout) == (0, "no message moved: the queue is empty\n"), done.stderr


def test_move_names_streams_and_messages_that_are_not_delivered(tmp_path: Path) -> None:
    data = [("--data", str(tmp_path / name)) for name in ("a", "b")]
    with serving(tmp_path, *data[0]) as old, serving(tmp_path, *data[1]) as new:
        for broker in (old, new):
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                connection.channel().queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        with channel_of(old, confirms=True) as channel:
            channel.basic_publish("", "log", b"1")
        eventually(lambda: old.queue("log")["stream"]["next"] == 1, "the message is kept")
        done = penstock_command("messages", "move", "--all", "--from-url", old.url, "--to-url", new.url)
        sentence = "no message moved; 1 stream not moved, as streams keep their messages: log\n"
        assert (done.returncode, done.stdout) == (0, sentence), done.stderr
        declared(new.url, "plain")
        done = penstock_command(
            *("messages", "move", "--from", "log", "--to", "plain", "--from-url", old.url, "--to-url", new.url)
        )
        left = "1 were not delivered: consumers have them, or the queue is a stream"
        assert (done.returncode, done.stdout) == (0, f"no message moved; {left}\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a queue by --from, or move all queues by --all"),
        (("--all", "--from", "a"), "--all moves all messages of all queues: leave out --from, --to and --count"),
        (("--all",), "queue 'each' cannot be moved onto itself"),
        (("--from", "a"), "queue 'a' cannot be moved onto itself"),
    ],
)
def test_move_that_names_no_queue_or_its_own_is_refused(words: tuple[str, ...], sentence: str) -> None:
    done = penstock_command("messages", "move", *words, "--url", "amqp://guest:guest@127.0.0.1:1/")
    assert (done.returncode, done.stderr) == (1, f"penstock: {sentence}\n")


@pytest.mark.parametrize("direction", ["from", "to"])
def test_move_from_and_to_rabbitmq(brokers: tuple[BrokerProcess, BrokerProcess], rabbitmq: str, direction: str) -> None:
    old, new = (rabbitmq, brokers[1].url) if direction == "from" else (brokers[1].url, rabbitmq)
    queue = f"rabbit-{direction}"
    fill(old, queue, COUNT, headers={"n": 1}, delivery_mode=2)
    declared(new, queue)
    assert move(old, new, queue)["moved"] == COUNT
    found = taken(new, queue)
    assert [name for name, _, _ in found] == [str(number) for number in range(COUNT)]
    assert found[0][2].headers == {"n": 1}
    assert taken(old, queue) == []
