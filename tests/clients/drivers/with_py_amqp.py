"""py-amqp: a publish that waits for its confirmation serves the consumers of its connection meanwhile."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import amqp

from tests.clients.drivers.common import Task, read_task, tell, told_to_leave


def connect(task: Task) -> amqp.Connection:
    connection = amqp.Connection(urlsplit(task.url).netloc.rpartition("@")[2], confirm_publish=task.confirms)
    connection.connect()
    return connection


def consume(connection: amqp.Connection, task: Task) -> None:
    channel = connection.channel()

    def receive(message: amqp.Message) -> None:
        channel.basic_ack(message.delivery_tag)
        tell(received=int(message.body))

    channel.basic_consume(task.beside, callback=receive)


def publish(connection: amqp.Connection, task: Task) -> None:
    channel = connection.channel()
    for number in range(task.count):
        try:
            channel.basic_publish(amqp.Message(task.body(number).decode()), routing_key=task.held)
            if task.confirms:
                tell(confirmed=number)
        except amqp.exceptions.MessageNacked:
            tell(refused=number)
    tell(done=True)


def serve(connection: amqp.Connection, leaving: threading.Event) -> None:
    """Call the consumers until it is time to leave."""
    while not leaving.is_set():
        try:
            connection.drain_events(timeout=0.05)
        except TimeoutError:
            continue


def main() -> None:
    task, leaving = read_task(), told_to_leave()
    tell(version=amqp.__version__)
    publishing = connect(task)
    consuming = publishing if task.confirms else connect(task)
    consume(consuming, task)
    beside = threading.Thread(target=serve, args=(consuming, leaving))
    if not task.confirms:
        beside.start()
    try:
        publish(publishing, task)
        serve(publishing, leaving)
        publishing.close()
    except (amqp.AMQPError, OSError) as failure:
        tell(failed=repr(failure))
        publishing.collect()
    leaving.wait()
    if not task.confirms:
        beside.join()
        consuming.close()


if __name__ == "__main__":
    main()
