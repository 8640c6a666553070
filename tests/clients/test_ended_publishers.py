"""Processes that publish without confirms: notices while held, and the fate of publishes after they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, serving, some_name
from tests.support.client_hold import CLIENTS, HERE, JARS, driving, take
from tests.support.pika_helpers import channel_of, consumed
from tests.support.raw_client import open_peer, publish_frames

pytestmark = pytest.mark.clients

ROOT = Path(__file__).resolve().parents[2]
CLASS_PATH = os.pathsep.join(map(str, JARS))
CAPACITY = 20
SENT = 40

CELERY = """
from celery import Celery
app = Celery("tests", broker={url!r})
app.conf.task_default_queue = {queue!r}
@app.task
def work(number): pass
for number in range({sent}):
    work.delay(number)
"""
KOMBU = """
import kombu, os
connection = kombu.Connection({url!r})
producer = connection.Producer()
for number in range({sent}):
    producer.publish(str(number), routing_key={queue!r}, content_type="text/plain", content_encoding="utf-8")
"""
PIKA = """
import pika
channel = pika.BlockingConnection(pika.URLParameters({url!r})).channel()
for number in range({sent}):
    channel.basic_publish("", {queue!r}, str(number).encode())
"""
UNREAD = """
import select
select.select([{socket}], [], [])
"""
"""Wait until the notice is in the socket, to exit without reading it."""
LOOKING_PIKA = """
import pika
connection = pika.BlockingConnection(pika.URLParameters({url!r}))
channel = connection.channel()
heard = []
connection.add_on_connection_blocked_callback(lambda _, frame: heard.append(frame.method.reason))
try:
    while not heard:
        channel.basic_publish("", {queue!r}, bytes({size}))
        connection.process_data_events(0)
except pika.exceptions.AMQPError as error:
    heard.append(error)
print(heard[0])
"""
LOOKING_AIO_PIKA = """
import aio_pika, asyncio, logging, os
heard = []
class Hear(logging.Handler):
    def emit(self, record):
        if "was blocked by" in record.msg:
            heard.append(record.args[1])
logging.getLogger("aiormq.connection").addHandler(Hear())
async def main():
    connection = await aio_pika.connect({url!r})
    channel = await connection.channel(publisher_confirms=False)
    while not heard:
        await channel.default_exchange.publish(aio_pika.Message(bytes({size})), {queue!r})
        await asyncio.sleep(0)
    print(heard[0], flush=True)
    os._exit(0)
asyncio.run(main())
"""
"""They publish, and look for events between, until they hear of the block or lose their channel."""
LOOKING_PY_AMQP = """
import amqp
heard = []
connection = amqp.Connection({url!r}.rpartition("@")[2].partition("/")[0], on_blocked=heard.append)
connection.connect()
channel = connection.channel()
while not heard:
    channel.basic_publish(amqp.Message(bytes(50_000)), routing_key={queue!r})
    try:
        connection.drain_events(timeout=0.01)
    except TimeoutError:
        pass
"""
LOOKING_KOMBU = """
import kombu, os
heard = []
connection = kombu.Connection({url!r}, transport_options=dict(on_blocked=heard.append))
producer = connection.Producer()
while not heard:
    producer.publish(bytes(50_000), routing_key={queue!r})
    try:
        connection.drain_events(timeout=0.01)
    except TimeoutError:
        pass
os._exit(0)
"""
LOOKING_AMQPSTORM = """
import amqpstorm
connection = amqpstorm.UriConnection({url!r})
channel = connection.channel()
while not connection.is_blocked:
    channel.basic.publish(bytes(10_000).decode(), {queue!r})
    channel.check_for_errors()
"""
"""The same for libraries that drop the reason; they fail if the channel is closed."""

LOOKING = {
    "amqplib": ["node", str(HERE / "node" / "hear.js")],
    "RabbitMQ's Java client": ["java", "-Xmx64m", "-cp", CLASS_PATH, str(HERE / "java" / "Hear.java")],
    "librabbitmq": [sys.executable, "-m", "tests.clients.drivers.hear_librabbitmq"],
}
"""The same as commands, by the names of clients (`client_hold.CLIENTS`); URL and queue follow."""


def bound(broker: BrokerProcess, queue: str, deadline_s: int = 60) -> None:
    """Say what a queue may hold that its client declares without arguments."""
    with connect(broker.url, protocol="amqp091") as control:
        settings = {"capacity-messages": CAPACITY, "hold-deadline": deadline_s}
        control.request("settings.set", scope="queue", pattern=queue, settings=settings)


def run(program: str, **words: object) -> str:
    """Run a publisher in Python to its end, and return what it prints."""
    return said([sys.executable, "-c", program.format(**words)])


def said(words: list[str]) -> str:
    """Run a command to its end, and return what it prints."""
    process = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def held_by_gone(broker: BrokerProcess) -> int:
    """Return how many publishes are in line whose connection has ended."""
    with connect(broker.url, protocol="amqp091") as control:
        return int(control.status()["lingering"]["messages"])


@pytest.mark.parametrize("unread", [False, True], ids=["ended", "ended-with-its-notice-unread"])
@pytest.mark.parametrize(
    ("program", "socket"),
    [
        pytest.param(KOMBU, "connection.connection.transport.sock", id="kombu"),
        pytest.param(PIKA, "channel.connection._impl._transport._sock", id="pika"),
    ],
)
def test_publishes_of_an_ended_process_come_out_of_a_queue_of_half_their_number(
    own_broker: BrokerProcess, name: str, program: str, socket: str, unread: bool
) -> None:
    bound(own_broker, name)
    with channel_of(own_broker) as channel:
        channel.queue_declare(name)
        run(program + UNREAD * unread, url=own_broker.url + "%2F", queue=name, sent=SENT, socket=socket)
        eventually(lambda: held_by_gone(own_broker) == SENT - CAPACITY, "its publishes stay in line")
        assert take(channel, name, SENT) == list(range(SENT))
    assert own_broker.logged("PST-1019") == []


@pytest.mark.parametrize("size", [10, 100_000], ids=["short", "beyond-the-hold-budget"])
@pytest.mark.parametrize("program", [LOOKING_PIKA, LOOKING_AIO_PIKA], ids=["pika", "aio-pika"])
def test_publisher_that_polls_events_is_notified_of_the_block_while_held(
    own_broker: BrokerProcess, name: str, program: str, size: int
) -> None:
    bound(own_broker, name, 10)
    with channel_of(own_broker) as channel:
        channel.queue_declare(name)
        heard = run(program, url=own_broker.url + "%2F", queue=name, size=size)
    assert heard.startswith(f"queue {name}: "), heard
    assert own_broker.queue(name)["refused"] == 0


@pytest.mark.parametrize("client", LOOKING, ids=lambda name: name.replace(" ", "-"))
def test_publisher_in_another_language_is_notified_of_the_block_while_held(
    own_broker: BrokerProcess, name: str, client: str
) -> None:
    (known,) = (each for each in CLIENTS if each.name == client)
    known.skip_if_missing()
    bound(own_broker, name, 10)
    with channel_of(own_broker) as channel:
        channel.queue_declare(name)
        heard = said([*LOOKING[client], own_broker.url + "%2F", name])
    assert heard.startswith(f"queue {name}: "), heard
    assert own_broker.queue(name)["refused"] == 0


@pytest.mark.parametrize("client", ["amqp091-go", "Bunny", "rabbitmq-client", "lapin"])
def test_publisher_without_confirms_is_notified_of_the_block_and_its_end(
    own_broker: BrokerProcess, name: str, client: str
) -> None:
    """Two of these write nothing meanwhile, which only their publishes may wait for."""
    (known,) = (each for each in CLIENTS if each.name == client)
    known.skip_if_missing()
    bound(own_broker, name)
    beside = f"{name}-beside"
    with channel_of(own_broker) as channel:
        channel.queue_declare(name)
        channel.queue_declare(beside)
        with driving(known, "plain", own_broker.url, name, beside, SENT, size=10) as driver:
            (reason,) = driver.listen("blocked")
            assert str(reason).startswith(f"queue {name}: "), reason
            assert take(channel, name, SENT) == list(range(SENT))
            driver.listen("unblocked")
            driver.listen("done")
            driver.leave()
    assert "failed" not in driver.told
    assert own_broker.queue(name)["refused"] == 0


@pytest.mark.parametrize(
    "program", [LOOKING_PY_AMQP, LOOKING_KOMBU, LOOKING_AMQPSTORM], ids=["py-amqp", "kombu", "amqpstorm"]
)
def test_publisher_whose_library_drops_the_reason_is_notified_of_the_block(
    own_broker: BrokerProcess, name: str, program: str
) -> None:
    bound(own_broker, name, 10)
    with channel_of(own_broker) as channel:
        channel.queue_declare(name)
        run(program, url=own_broker.url + "%2F", queue=name)
    assert own_broker.queue(name)["refused"] == 0


def test_celery_tasks_of_an_ended_process_pass_a_queue_of_half_their_number(
    own_broker: BrokerProcess, name: str
) -> None:
    bound(own_broker, name)
    run(CELERY, url=own_broker.url + "/", queue=name, sent=SENT)
    eventually(lambda: held_by_gone(own_broker) == SENT - CAPACITY, "its tasks stay in line")
    with channel_of(own_broker) as channel:
        assert len(consumed(channel, name, SENT)) == SENT
    assert own_broker.queue(name)["refused"] == 0
    assert len(own_broker.await_logged("PST-1018")) == 1
    assert own_broker.logged("PST-1019") == []


def test_input_that_is_unread_when_its_process_ends_is_read_and_goes_in_in_turn(tmp_path: Path) -> None:
    """More is sent than is held, so reading is paused and the end of the socket is behind what is not read."""
    sent, size, name = 100, 20_000, some_name("q")
    with serving(tmp_path) as broker, open_peer(broker) as consumer:
        bound(broker, name)
        with channel_of(broker) as channel:
            channel.queue_declare(name)
            with open_peer(broker) as publisher:
                number = publisher.socket.getsockname()[1]
                publisher.say(b"".join(publish_frames(1, "", name, b"%d" % each + bytes(size)) for each in range(sent)))
            assert eventually(lambda: broker.logged(f":{number}/") and broker.logged("PST-1018"), "it is held")
            assert consumer.is_well()
            came = [int(body[:3].rstrip(b"\0")) for body in consumed(channel, name, sent, 5)]
        assert came == list(range(sent))
        assert broker.logged("PST-1019") == []
