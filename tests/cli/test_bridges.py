"""Command `bridges run`: between two brokers of Penstock, with clients of RabbitMQ at both ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving, some_name

PASSWORD = "guest:guest@"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Two brokers."""
    with serving(tmp_path_factory.mktemp("old")) as old, serving(tmp_path_factory.mktemp("new")) as new:
        yield old, new
        for each in (old, new):
            assert "Traceback" not in each.log()


def url_of(broker: BrokerProcess, place: str = "") -> str:
    return broker.url.rstrip("/") + f"/{place}"


def declared(broker: BrokerProcess, name: str, **arguments: object) -> str:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        connection.channel().queue_declare(name, arguments=given)
    return name


def filled(broker: BrokerProcess, name: str, count: int, **properties: object) -> str:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(name)
        for number in range(count):
            given = pika.BasicProperties(message_id=str(number), **properties)
            channel.basic_publish("", name, f"body {number}".encode(), given)
    return name


def taken(broker: BrokerProcess, name: str) -> list[tuple[int, pika.BasicProperties, bytes]]:
    """Take all messages of a queue: their numbers, properties and bodies."""
    found = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get(name, auto_ack=True)
            if method is None:
                return found
            found.append((int(properties.message_id), properties, body))


def depth(broker: BrokerProcess, name: str) -> int:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        return int(connection.channel().queue_declare(name, passive=True).method.message_count)


def carried(source: str, target: str, *words: str, code: int = 0) -> dict[str, object]:
    done = penstock_command("bridges", "run", source, target, "--json", *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def running(source: str, target: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", "bridges", "run", source, target, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_messages_are_carried_in_order_with_their_properties(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("orders"))
    filled(old, name, 1_200, headers={"region": "eu"}, priority=3, type="order", delivery_mode=2)
    answer = carried(url_of(old, f"?queue={name}"), url_of(new), "--until-empty")
    assert (answer["carried"], answer["refused"], answer["doubtful"]) == (1_200, 0, 0)
    found = taken(new, name)
    assert [number for number, _, _ in found] == list(range(1_200))
    assert {(each.headers["region"], each.priority, each.type, each.delivery_mode) for _, each, _ in found} == {
        ("eu", 3, "order", 2)
    }
    assert found[7][2] == b"body 7"
    assert depth(old, name) == 0


def test_count_ends_the_bridge_and_the_rest_stays_in_order(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("counted"))
    filled(old, name, 50)
    answer = carried(url_of(old, f"?queue={name}"), url_of(new), "--count", "20")
    assert answer["carried"] == 20
    assert [number for number, _, _ in taken(new, name)] == list(range(20))
    assert [number for number, _, _ in taken(old, name)] == list(range(20, 50))


def test_full_target_holds_the_bridge_until_a_signal_ends_it(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("full"), capacity_messages=10)
    filled(old, name, 100)
    process = running(url_of(old, f"?queue={name}"), url_of(new))
    eventually(lambda: depth(new, name) == 10, "the target is full")
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert said.startswith("10 messages carried")
    assert [number for number, _, _ in taken(new, name)] == list(range(10))
    assert sorted(number for number, _, _ in taken(old, name)) == list(range(10, 100))


def test_bridge_without_an_end_goes_on_when_its_target_is_back(
    brokers: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    old, data = brokers[0], ("--data", str(tmp_path / "data"))
    name = some_name("back")
    filled(old, name, 10)
    with serving(tmp_path, *data) as new:
        address = new.addresses[0].removeprefix("amqp://")
        with pika.BlockingConnection(pika.URLParameters(new.url)) as connection:
            connection.channel().queue_declare(name, durable=True)
        process = running(url_of(old, f"?queue={name}"), url_of(new))
        eventually(lambda: depth(new, name) == 10, "the first messages are carried")
        new.kill()
    filled(old, name, 10, delivery_mode=2)
    with serving(tmp_path, *data, listen=(address,)) as again:
        eventually(lambda: depth(again, name) >= 10, "the others are carried")
        eventually(lambda: depth(old, name) == 0, "none is left")
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert said.startswith("20 messages carried")
    assert PASSWORD not in said + errors


def test_bridge_with_a_count_waits_while_the_target_is_full(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("waits"), capacity_messages=10)
    filled(old, name, 30)
    process = running(url_of(old, f"?queue={name}"), url_of(new), "--count", "20")
    eventually(lambda: depth(new, name) == 10, "the target is full")
    assert [number for number, _, _ in taken(new, name)][:10] == list(range(10))
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert said == "20 messages carried\n"
    assert depth(old, name) == 10


def test_refused_messages_stay_at_the_source_with_the_reason(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("refusing"), capacity_messages=10, overflow="reject")
    filled(old, name, 30)
    answer = carried(url_of(old, f"?queue={name}"), url_of(new), "--until-empty", code=1)
    assert (answer["carried"], answer["refused"]) == (10, 20)
    assert len(answer["reasons"]) > 0
    assert [number for number, _, _ in taken(old, name)] == list(range(10, 30))


def test_bridge_to_an_exchange_keeps_or_sets_the_routing_key(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name, kept, given = (some_name(word) for word in ("keyed", "kept", "given"))
    for queue in (kept, given):
        declared(new, queue)
    with pika.BlockingConnection(pika.URLParameters(new.url)) as connection:
        connection.channel().queue_bind(kept, "amq.topic", name)
        connection.channel().queue_bind(given, "amq.topic", "other.key")
    filled(old, name, 1)
    carried(url_of(old, f"?queue={name}"), url_of(new, "?exchange=amq.topic"), "--until-empty")
    filled(old, name, 1)
    carried(url_of(old, f"?queue={name}"), url_of(new, "?exchange=amq.topic&key=other.key"), "--until-empty")
    assert (depth(new, kept), depth(new, given)) == (1, 1)


def test_selector_carries_what_it_matches(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("selected"))
    filled(old, name, 3, headers={"region": "eu"})
    filled(old, name, 2, headers={"region": "us"})
    answer = carried(url_of(old, f"?queue={name}"), url_of(new), "--until-empty", "--selector", "region = 'us'")
    assert answer["carried"] == 2
    assert (depth(old, name), depth(new, name)) == (3, 2)


def test_forward_headers_name_the_source_without_a_password(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("hops"))
    filled(old, name, 1, headers={"a": 1})
    carried(url_of(old, f"?queue={name}"), url_of(new), "--until-empty", "--forward-headers")
    [(_, properties, _)] = taken(new, name)
    [hop] = properties.headers["x-received-from"]
    assert (properties.headers["a"], hop["queue"], hop["redelivered"]) == (1, name, False)
    assert hop["uri"] == old.url.replace(PASSWORD, "").rstrip("/") + "/"


@pytest.mark.parametrize("place", ["?queue=absent", ""], ids=["named", "by the source's name"])
def test_target_that_is_absent_ends_the_bridge_at_once(
    brokers: tuple[BrokerProcess, BrokerProcess], place: str
) -> None:
    old, new = brokers
    name = filled(old, some_name("alone"), 3)
    done = penstock_command("bridges", "run", url_of(old, f"?queue={name}"), url_of(new, place))
    assert done.returncode == 1
    assert f"no queue '{'absent' if place else name}'" in done.stderr
    assert depth(old, name) == 3


def test_killed_bridge_loses_nothing(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    old, new = brokers
    name = declared(new, some_name("killed"))
    filled(old, name, 5_000)
    source, target = url_of(old, f"?queue={name}"), url_of(new)
    process = running(source, target)
    eventually(lambda: depth(new, name) > 0, "messages are carried")
    process.kill()
    process.communicate(timeout=PATIENCE)
    carried(source, target, "--until-empty")
    numbers = [number for number, _, _ in taken(new, name)]
    assert sorted(set(numbers)) == list(range(5_000))
    assert depth(old, name) == 0


@pytest.mark.parametrize("direction", ["from", "to"])
def test_bridge_from_and_to_rabbitmq_keeps_properties(
    brokers: tuple[BrokerProcess, BrokerProcess], rabbitmq: str, direction: str
) -> None:
    name = some_name("beside")
    first, second = (rabbitmq, brokers[1].url) if direction == "from" else (brokers[1].url, rabbitmq)
    for url in (first, second):
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            connection.channel().queue_declare(name)
    given = pika.BasicProperties(headers={"a": [1, "x"], "b": {"c": True}}, priority=2, message_id="1", type="order")
    with pika.BlockingConnection(pika.URLParameters(first)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(3_000):
            given.message_id = str(number)
            channel.basic_publish("", name, b"body", given)
    assert carried(f"{first}?queue={name}", second, "--until-empty")["carried"] == 3_000
    with pika.BlockingConnection(pika.URLParameters(second)) as connection:
        channel = connection.channel()
        found = [channel.basic_get(name, auto_ack=True)[1] for _ in range(3_000)]
    assert [each.message_id for each in found] == [str(number) for number in range(3_000)]
    assert {str((each.headers, each.priority, each.type)) for each in found} == {
        str((given.headers, given.priority, given.type))
    }


def test_messages_are_carried_exactly_once_through_kills_of_the_bridge(
    brokers: tuple[BrokerProcess, BrokerProcess],
) -> None:
    old, new = brokers
    name = declared(new, some_name("once"))
    filled(old, name, 3_000, delivery_mode=2)
    ends = (url_of(old, f"?queue={name}"), url_of(new))
    for part in (1_000, 2_000):
        process = running(*ends, "--exactly-once")
        eventually(lambda part=part: depth(new, name) >= part, "a part is carried")
        process.kill()
        process.communicate()
    answer = carried(*ends, "--exactly-once", "--until-empty")
    assert (answer["refused"], answer["doubtful"]) == (0, 0)
    assert [number for number, _, _ in taken(new, name)] == list(range(3_000))


def test_options_that_need_single_messages_are_refused_with_exactly_once() -> None:
    ends = ("amqp://127.0.0.1:1/?queue=a", "amqp://127.0.0.1:1/?queue=b")
    for words, rule in (
        (("--exactly-once", "--forward-headers"), "without --selector and --forward-headers"),
        (("--exactly-once", "--selector", "a = 1"), "without --selector and --forward-headers"),
        (("--name", "x"), "add --exactly-once"),
    ):
        done = penstock_command("bridges", "run", *ends, *words)
        assert (done.returncode, rule in done.stderr) == (1, True), done.stderr
