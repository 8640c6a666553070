"""Client libraries while blocked: `python -m penstock.client.bench.survivors LIBRARY URL QUEUE TIMEOUT` runs one of
them.

The program sends numbers one by one, each with the library's time-out, and prints a JSON line for each outcome. After a
line on standard input it sends one number more, which shows whether the connection is still usable.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from penstock import sync

NUMBERS: Final = 12
"""Most numbers that are sent before the release."""
FAILURES: Final = 2
"""Failures after which a library waits for the release."""
AFTER: Final = 99
"""Number that is sent after the release."""
Send = Callable[[int], object]


class Place(NamedTuple):
    """Broker and queue of a library, and seconds after which a send should fail."""

    url: str
    queue: str
    timeout: float

    @property
    def host(self) -> str:
        """Return the host."""
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        """Return the port."""
        return urlsplit(self.url).port or 5672

    @property
    def login(self) -> tuple[str, str]:
        """Return the user and the password."""
        parts = urlsplit(self.url)
        return unquote(parts.username or "guest"), unquote(parts.password or "guest")

    @property
    def vhost(self) -> str:
        """Return the virtual host."""
        return unquote(urlsplit(self.url).path[1:]) or "/"


def body_of(number: int) -> bytes:
    """Return the body of a number."""
    return b"%d" % number


def penstock_sync(place: Place) -> Send:
    """Return the send of `penstock.sync`."""
    connection = sync.connect(place.url, flow_control_wait_failure=place.timeout)
    publisher = connection.publisher(place.queue, window=1)
    return lambda number: publisher.send(body_of(number))


def penstock_asyncio(place: Place) -> Send:
    """Return the send of `penstock.connect`, in a loop of its own."""
    from penstock.client import aio

    loop = _loop()

    async def opened() -> aio.Publisher:
        connection = await aio.connect(place.url, flow_control_wait_failure=place.timeout)
        return connection.publisher(place.queue, window=1)

    publisher = loop(opened())
    return lambda number: loop(publisher.send(body_of(number)))


def _loop() -> Callable[[Any], Any]:
    """Run coroutines in a thread, so that the loop continues between two calls."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def pika(place: Place) -> Send:
    """Return the send of pika's BlockingConnection, with the time-out of a blocked connection."""
    library = import_module("pika")
    parameters = library.ConnectionParameters(
        place.host,
        place.port,
        place.vhost,
        library.PlainCredentials(*place.login),
        blocked_connection_timeout=place.timeout,
    )
    channel = library.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    return lambda number: channel.basic_publish("", place.queue, body_of(number))


def aio_pika(place: Place) -> Send:
    """Return the send of aio-pika, in a loop of its own."""
    library = import_module("aio_pika")
    loop = _loop()

    async def opened() -> Any:
        connection = await library.connect(
            host=place.host, port=place.port, login=place.login[0], password=place.login[1], virtualhost=place.vhost
        )
        return (await connection.channel()).default_exchange

    exchange = loop(opened())
    return lambda number: loop(exchange.publish(library.Message(body_of(number)), place.queue, timeout=place.timeout))


def py_amqp(place: Place) -> Send:
    """Return the send of py-amqp."""
    library = import_module("amqp")
    user, password = place.login
    connection = library.Connection(
        f"{place.host}:{place.port}", userid=user, password=password, virtual_host=place.vhost, confirm_publish=True
    )
    connection.connect()
    channel = connection.channel()
    return lambda number: channel.basic_publish(
        library.Message(body_of(number)), "", place.queue, confirm_timeout=place.timeout
    )


def kombu(place: Place) -> Send:
    """Return the send of kombu, which is Celery's, with confirms."""
    library = import_module("kombu")
    user, password = place.login
    options = {"confirm_publish": True}
    connection = library.Connection(
        hostname=place.host, port=place.port, userid=user, password=password, virtual_host=place.vhost,
        transport="pyamqp", transport_options=options,
    )  # fmt: skip
    producer = connection.Producer()
    return lambda number: producer.publish(
        body_of(number), routing_key=place.queue, exchange="", confirm_timeout=place.timeout, retry=False
    )


def amqpstorm(place: Place) -> Send:
    """Return the send of AMQPStorm."""
    library = import_module("amqpstorm")
    timeout = max(1, round(place.timeout))
    connection = library.Connection(
        place.host, *place.login, port=place.port, virtual_host=place.vhost, timeout=max(10, timeout)
    )
    channel = connection.channel(rpc_timeout=timeout)
    channel.confirm_deliveries()
    return lambda number: channel.basic.publish(body_of(number), place.queue)


def proton(place: Place) -> Send:
    """Return the send of Proton's BlockingConnection."""
    message, utils = import_module("proton").Message, import_module("proton.utils")
    user, password = place.login
    connection = utils.BlockingConnection(
        f"{place.host}:{place.port}", user=user, password=password, allowed_mechs="PLAIN", timeout=place.timeout
    )
    sender = connection.create_sender(place.queue)
    return lambda number: sender.send(message(body=body_of(number), inferred=True), timeout=place.timeout)


def rabbitmq_amqp(place: Place) -> Send:
    """Return the send of RabbitMQ's client of AMQP 1.0, which has no time-out."""
    library = import_module("rabbitmq_amqp_python_client")
    user, password = place.login
    connection = library.Environment(uri=f"amqp://{user}:{password}@{place.host}:{place.port}/").connection()
    connection.dial()
    publisher = connection.publisher(library.AddressHelper.queue_address(place.queue))
    return lambda number: publisher.publish(library.Message(body=body_of(number)))


class Library(NamedTuple):
    """Client library: its name, its package, and the function that opens it."""

    name: str
    package: str
    opened: Callable[[Place], Send]


LIBRARIES: Final = (
    Library("penstock.sync", "penstock", penstock_sync),
    Library("penstock, asyncio", "penstock", penstock_asyncio),
    Library("pika", "pika", pika),
    Library("aio-pika", "aio_pika", aio_pika),
    Library("py-amqp", "amqp", py_amqp),
    Library("kombu", "kombu", kombu),
    Library("AMQPStorm", "amqpstorm", amqpstorm),
    Library("Proton", "proton", proton),
    Library("RabbitMQ's 1.0 client", "rabbitmq_amqp_python_client", rabbitmq_amqp),
)
"""All known libraries, in the order of the table."""


def tell(**found: object) -> None:
    """Print a line for the parent process."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def text_of(error: BaseException) -> str:
    """Return an error as the library's user sees it."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def attempt(send: Send, number: int) -> bool:
    """Send a number and report its outcome; return whether the send succeeded."""
    tell(number=number, begun=True)
    begun = time.monotonic()
    try:
        if send(number) is False:
            raise RuntimeError("it returned False")  # AMQPStorm's word for a refusal, which its user must check.
    except BaseException as error:  # RabbitMQ's client raises a BaseException.
        tell(number=number, error=text_of(error), seconds=time.monotonic() - begun)
        return False
    tell(number=number, seconds=time.monotonic() - begun)
    return True


def main(name: str, url: str, queue: str, timeout: float) -> None:
    """Run one library."""
    library = next(each for each in LIBRARIES if each.name == name)
    try:
        send = library.opened(Place(url, queue, timeout))
    except BaseException as error:  # RabbitMQ's client raises a BaseException.
        tell(refused=text_of(error))
        return
    tell(ready=True)
    sys.stdin.readline()
    failures = 0
    for number in range(NUMBERS):
        failures += not attempt(send, number)
        if failures == FAILURES:
            break
    tell(waiting=True)
    sys.stdin.readline()
    attempt(send, AFTER)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
    os._exit(0)  # Threads and loops of libraries may wait for a broker.
