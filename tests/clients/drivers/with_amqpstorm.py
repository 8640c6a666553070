"""amqpstorm: a thread of its own reads, so that consumer and publisher may each wait in theirs."""

from __future__ import annotations

import threading

import amqpstorm

from tests.clients.drivers.common import Task, read_task, tell, told_to_leave

PATIENCE_S = 3600
"""Seconds that a call waits for its answer; by default 60, and a publish that is held longer fails in the client."""


def connect(task: Task) -> amqpstorm.Connection:
    return amqpstorm.UriConnection(task.url)


def receive(message: amqpstorm.Message) -> None:
    message.ack()
    tell(received=int(message.body))


def publish(channel: amqpstorm.Channel, task: Task) -> None:
    if task.confirms:
        channel.confirm_deliveries()
    for number in range(task.count):
        accepted = channel.basic.publish(task.body(number), task.held)
        if task.confirms:
            tell(**{"confirmed" if accepted else "refused": number})
    tell(done=True)


def main() -> None:
    task, leaving = read_task(), told_to_leave()
    tell(version=amqpstorm.__version__)
    publishing = connect(task)
    consuming = publishing if task.confirms else connect(task)
    beside = consuming.channel()
    beside.basic.consume(receive, task.beside)
    threading.Thread(target=beside.start_consuming, daemon=True).start()
    channel = publishing.channel(rpc_timeout=PATIENCE_S)
    try:
        publish(channel, task)
        leaving.wait()
        channel.check_for_errors()
    except amqpstorm.AMQPError as failure:
        tell(failed=repr(failure))
    leaving.wait()
    consuming.close()
    publishing.close()


if __name__ == "__main__":
    main()
