"""librabbitmq by Debian's amqp-tools: amqp-publish, and amqp-consume beside it."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from contextlib import suppress

from tests.clients.drivers.common import Task, read_task, tell, told_to_leave


def version() -> str:
    """Return the version of the library that the tools are linked with."""
    library = ctypes.CDLL("librabbitmq.so.4")
    library.amqp_version.restype = ctypes.c_char_p
    return str(library.amqp_version().decode())


def read_deliveries(consumer: subprocess.Popen[str]) -> None:
    for line in consumer.stdout:
        tell(received=int(line))


def publish(publisher: subprocess.Popen[str], task: Task) -> None:
    """Hand over one line for each message; a publisher that waits takes no more."""
    for number in range(task.count):
        publisher.stdin.write(str(number).ljust(task.size - 1) + "\n")
        publisher.stdin.flush()
    tell(done=True)


def main() -> None:
    task, leaving = read_task(), told_to_leave()
    tell(version=version())
    words = ["amqp-consume", "-u", task.url, "-q", task.beside, "cat"]
    consumer = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    reader = threading.Thread(target=read_deliveries, args=(consumer,))
    reader.start()
    words = ["amqp-publish", "-u", task.url, "-r", task.held, "-l"]
    publisher = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with suppress(BrokenPipeError):
        publish(publisher, task)
    leaving.wait()
    _, said = publisher.communicate()
    if publisher.returncode:
        tell(failed=said.strip())
    consumer.terminate()
    consumer.wait()
    reader.join()


if __name__ == "__main__":
    main()
