"""Messages: publish, consume and get."""

from __future__ import annotations

import base64
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.common import (
    JSON,
    URL,
    connected,
    counted,
    main,
    pairs,
    print_result,
    report_errors,
    say,
    say_json,
    writing,
)
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.content import Delivery
    from penstock.client.publisher import Progress, Publisher
    from penstock.wire.amqp091.codec import Properties

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
PROGRESS_S = 1.0
"""Seconds between two lines of progress."""
READ_BYTES = 256 * 1024
"""Octets of a file that are read at once."""
SHOWN_MOST = 1000
"""Messages that `consume` shows without --ack: they stay with it until it ends, and count in the queue's depth."""


@main.command()
@click.argument("key")
@click.argument("bodies", metavar="[BODY]...", nargs=-1)
@click.option("-e", "--exchange", default="", help="The exchange; without it KEY is the name of a queue.")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="Read the messages from there; - is standard input."
)
@click.option("--whole", is_flag=True, help="What is read is one message, not one for each line.")
@click.option("--persistent", is_flag=True, help="With delivery mode 2.")
@click.option("--content-type", metavar="TYPE", help="What the bodies are, such as application/json.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header; may be repeated.")
@click.option("--timeout", metavar="S", type=float, help="Give up when nothing has moved for S seconds.")
@JSON
@URL
def publish(
    key: str,
    bodies: tuple[str, ...],
    exchange: str,
    file: Path | None,
    whole: bool,
    persistent: bool,
    content_type: str | None,
    headers: tuple[str, ...],
    timeout: float | None,
    as_json: bool,
    url: str,
) -> None:
    """Publish each BODY with routing key KEY; without one, each line of --file or of standard input.

    Waits until the broker has confirmed all of them, and says on standard error what holds them back meanwhile. Ends
    with 1 if one was refused, or reached no queue. For example: penstock publish orders 'one order', or
    penstock publish eu.orders --exchange logs --file orders.txt
    """
    from penstock.client.errors import Timeout
    from penstock.client.publisher import Publisher
    from penstock.wire.amqp091.codec import Properties

    with report_errors(), _interruptible():
        if bodies and (file is not None or whole):
            raise ConfigError("give bodies or a file, not both")
        properties = Properties(content_type=content_type, headers=pairs(headers) or None)
        if persistent:
            properties.delivery_mode = 2
        with (
            connected(url) as connection,
            Publisher(
                connection, exchange, key, mandatory=True, patience=timeout, report_every=PROGRESS_S
            ) as publisher,
        ):
            try:
                progress = _publish(publisher, _bodies(bodies, file, whole), properties)
            except Timeout as error:
                raise ConfigError(_given_up(str(error), publisher.progress())) from None
            lost = publisher.returned[:1]
            refusal = publisher.refusal
    went = progress.acked - progress.returned
    answer: dict[str, object] = {
        "published": progress.published,
        "confirmed": progress.acked,
        "refused": progress.nacked,
        "unroutable": progress.returned,
    }
    sentence = f"{counted(went, 'message')} published"
    if progress.nacked:
        sentence += f"; {progress.nacked:,} refused ({refusal or '`penstock why` says what is at its capacity'})"
    if progress.returned:
        sentence += f"; {progress.returned:,} reached no queue ({lost[0].text})" if lost else ""
    print_result(as_json, answer, sentence)
    if progress.nacked or progress.returned:
        sys.exit(1)


def _publish(publisher: Publisher, batches: Iterator[list[bytes]], properties: Properties) -> Progress:
    reporter = Reporter()
    for bodies in batches:
        publisher.publish(bodies, properties=properties, on_wait=reporter.tell)
    progress = publisher.wait(PROGRESS_S)
    while not progress.done:
        reporter.tell(progress)
        progress = publisher.wait(PROGRESS_S)
    reporter.end()
    return progress


def _given_up(why: str, progress: Progress) -> str:
    went = f"{progress.acked - progress.returned:,} of {progress.published:,} messages are confirmed"
    return f"given up, for {why}; {went}, and those without an answer may go in yet"


class Reporter:
    """Says on standard error how it stands: to people all the time, to programs only why nothing moves."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._told = False

    def tell(self, progress: Progress) -> None:
        """Say how it stands."""
        if progress.blocked != self._reason:
            self._reason = progress.blocked
            self.end()
            why = f"held by the broker: {self._reason}" if self._reason else "the broker lets it go on"
            say(f"penstock: {why}", err=True)
        if sys.stderr.isatty():
            line = f"{progress.published:,} published, {progress.acked:,} confirmed"
            click.echo(f"\r{line}", nl=False, err=True)
            self._told = True

    def end(self) -> None:
        """Begin a new line, if one was begun."""
        if self._told:
            click.echo(err=True)
            self._told = False


def _bodies(given: tuple[str, ...], file: Path | None, whole: bool) -> Iterator[list[bytes]]:
    """Read the bodies, in batches as they come: what a pipe has is published before there is more."""
    if given:
        yield [body.encode(errors="surrogateescape") for body in given]
        return
    with _opened(file) as source:
        if whole:
            yield [source.read()]
            return
        rest = b""
        while piece := source.read1(READ_BYTES):
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            yield [rest.removesuffix(b"\r")]


@contextlib.contextmanager
def _opened(file: Path | None) -> Iterator[BufferedReader]:
    if file is None or str(file) == "-":
        assert isinstance(sys.stdin.buffer, BufferedReader)
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read '{file}': {error.strerror}") from None
    with source:
        yield source


ACK = click.option("--ack", is_flag=True, help="Take the messages out of the queue; without it they go back to it.")


@main.command()
@click.argument("queue")
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many messages.")
@ACK
@click.option("--timeout", metavar="S", type=float, help="End when no message has come for so long.")
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object, with its properties.")
@URL
def consume(queue: str, count: int | None, ack: bool, timeout: float | None, as_json: bool, url: str) -> None:
    """Print the bodies of QUEUE's messages, a line each, as they come, until --count, --timeout or Ctrl-C.

    Without --ack at most 1,000 are shown: they go back to the queue at the end, marked as redelivered. For example:
    penstock consume orders --ack --count 10
    """
    most = count if ack else min(count or SHOWN_MOST, SHOWN_MOST)
    with report_errors(), _interruptible(), connected(url) as connection:
        channel = connection.channel()
        channel.qos(min(most or SHOWN_MOST, SHOWN_MOST))
        tag = channel.consume(queue)
        seen = 0
        last = time.monotonic()
        while most is None or seen < most:
            wait_s = PROGRESS_S if timeout is None else min(PROGRESS_S, last + timeout - time.monotonic())
            delivery = channel.receive(max(wait_s, 0.0))
            if delivery is None:
                channel.check()
                if tag in channel.cancelled:
                    raise ConfigError(f"queue '{queue}' was deleted")
                if timeout is not None and time.monotonic() >= last + timeout:
                    break
                continue
            last = time.monotonic()
            seen += 1
            _print(delivery, as_json)
            if ack:
                channel.ack(delivery.delivery_tag)
        if not ack and count is None and seen == SHOWN_MOST:
            say(f"penstock: {SHOWN_MOST:,} messages are shown; --ack takes them out and goes on", err=True)


@main.command()
@click.argument("queue")
@click.option("-n", "--count", type=click.IntRange(1), default=1, show_default=True, help="At most so many messages.")
@ACK
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object, with its properties.")
@URL
def get(queue: str, count: int, ack: bool, as_json: bool, url: str) -> None:
    """Print the bodies of the first messages of QUEUE, a line each, and do not wait for more.

    Without --ack they go back to the queue. Ends with 1 if there is none. For example: penstock get orders --count 3
    """
    with report_errors(), _interruptible(), connected(url) as connection:
        channel = connection.channel()
        found = 0
        while found < count:
            delivery = channel.get(queue)
            if delivery is None:
                break
            found += 1
            _print(delivery, as_json)
            if ack:
                channel.ack(delivery.delivery_tag)
        if not found:
            raise ConfigError(f"queue '{queue}' has no message that is to be had")


def _print(delivery: Delivery, as_json: bool) -> None:
    if not as_json:
        with writing():
            sys.stdout.buffer.write(bytes(delivery.body) + b"\n")
            sys.stdout.buffer.flush()
        return
    body = bytes(delivery.body)
    try:
        payload, encoding = body.decode(), "string"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(body).decode(), "base64"
    told = {
        "payload": payload,
        "payload_encoding": encoding,
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "redelivered": delivery.redelivered,
        "properties": delivery.properties.as_dict(),
    }
    say_json(told)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """End in good order at Ctrl-C, or when told to (SIGTERM): what was acknowledged is, the rest goes back."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)
