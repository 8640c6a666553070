"""kombu, on py-amqp."""

from __future__ import annotations

import kombu
from amqp.exceptions import MessageNacked

from tests.clients.drivers.common import read_task, tell, told_to_leave


def receive(message: kombu.Message) -> None:
    message.ack()
    tell(received=int(message.body))


def main() -> None:
    task, leaving = read_task(), told_to_leave()
    tell(version=kombu.__version__)
    connection = kombu.Connection(task.url, transport_options={"confirm_publish": True})
    beside = kombu.Queue(task.beside, no_declare=True)
    with connection, connection.Consumer([beside], on_message=receive):
        producer = kombu.Producer(connection.channel())
        for number in range(task.count):
            try:
                text = task.body(number).decode()
                producer.publish(text, routing_key=task.held, content_type="text/plain", content_encoding="utf-8")
                tell(confirmed=number)
            except MessageNacked:
                tell(refused=number)
        tell(done=True)
        while not leaving.is_set():
            try:
                connection.drain_events(timeout=0.05)
            except TimeoutError:
                continue


if __name__ == "__main__":
    main()
