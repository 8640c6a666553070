"""Commands for messages: publish, consume and get."""

from __future__ import annotations

import base64
import contextlib
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
    Seconds,
    connected,
    counted,
    interruptible,
    main,
    pairs,
    print_result,
    report_errors,
    say,
    say_json,
    writing,
)
from penstock.cli.completion import names_of
from penstock.cli.near_names import near_match
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.content import Delivery
    from penstock.client.publisher import Progress, Publisher
    from penstock.content.properties import Properties

PATIENCE = Seconds(0)
PROGRESS_S = 1.0
"""Seconds between two progress lines."""
NOTICE_S = 5.0
"""Default seconds between two notices of a delayed message: Qpid's qpid.flow_control_wait_notify_period."""
READ_BYTES = 256 * 1024
"""Octets read from a file at once."""
SHOWN_MOST = 1000
"""Most messages that `consume` shows without --ack: they stay unacknowledged until it ends.
"""


@main.command()
@click.argument("key", shell_complete=names_of("queues"))
@click.argument("bodies", metavar="[BODY]...", nargs=-1)
@click.option(
    "-e",
    "--exchange",
    default="",
    shell_complete=names_of("exchanges"),
    help="Publish to this exchange; default: the default exchange, where KEY is a queue name.",
)
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="Read messages from this file; - is standard input."
)
@click.option("--whole", is_flag=True, help="Read one message from the whole input, not one per line.")
@click.option("--persistent", is_flag=True, help="Set delivery mode 2, so that a durable queue stores the messages.")
@click.option("--content-type", metavar="TYPE", help="Set the content type, such as application/json.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Add a header; may be repeated.")
@click.option(
    "--timeout", metavar="S", type=PATIENCE, help="Give up after S seconds without any confirm; default: wait for ever."
)
@click.option(
    "--notice",
    metavar="S",
    type=PATIENCE,
    default=NOTICE_S,
    show_default=True,
    help="Say each S seconds by how long a message is delayed, and why; 0: never.",
)
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
    notice: float,
    as_json: bool,
    url: str,
) -> None:
    """Publish each BODY with routing key KEY; without BODY, each line of --file or of standard input.

    Waits until the broker has confirmed all messages, and reports on standard error which gate withholds confirms. Exit
    code 1: a message was refused or reached no queue. For example: penstock publish orders 'one order', or penstock
    publish eu.orders --exchange logs --file orders.txt
    """
    from penstock.client.errors import ConnectionClosed, Timeout
    from penstock.client.publisher import Publisher
    from penstock.content.properties import Properties

    with report_errors(), interruptible():
        if bodies and (file is not None or whole):
            raise ConfigError("BODY and --file (or --whole) exclude each other: give bodies or a file")
        properties = Properties(content_type=content_type, headers=pairs(headers) or None)
        if persistent:
            properties.delivery_mode = 2
        with (
            connected(url) as connection,
            Publisher(
                connection, exchange, key, mandatory=True, patience=timeout, report_every=_report_s(notice)
            ) as publisher,
        ):
            try:
                progress = _publish(publisher, _bodies(bodies, file, whole), properties, notice)
            except Timeout as error:
                raise ConfigError(f"gave up: {error}; {_confirmed(publisher.progress())}") from None
            except ConnectionClosed as error:
                raise ConfigError(f"{error}; {_confirmed(publisher.progress())}") from None
            lost = publisher.returned[:1]
            near = near_match(connection, f"no queue '{key}'") if lost and not exchange else ""
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
        sentence += f"; {progress.returned:,} reached no queue ({lost[0].text}){near}" if lost else ""
    print_result(as_json, answer, sentence)
    if progress.nacked or progress.returned:
        sys.exit(1)


def _publish(publisher: Publisher, batches: Iterator[list[bytes]], properties: Properties, notice_s: float) -> Progress:
    reporter = Reporter(notice_s)
    for bodies in batches:
        publisher.publish(bodies, properties=properties, on_wait=reporter.tell)
    wait_s = _report_s(notice_s)
    progress = publisher.wait(wait_s)
    while not progress.done:
        reporter.tell(progress)
        progress = publisher.wait(wait_s)
    reporter.end()
    return progress


def _report_s(notice_s: float) -> float:
    """Return the seconds between two reports, where a notice may be due each `notice_s`."""
    return min(PROGRESS_S, notice_s or PROGRESS_S)


def _confirmed(progress: Progress) -> str:
    """Tell how many messages are confirmed where others never get an answer."""
    went = f"{progress.acked - progress.returned:,} of {progress.published:,} messages are confirmed"
    return f"{went}, and those without an answer may still be accepted"


class Reporter:
    """Reporter of progress on standard error: always on a terminal, else only the reason and the time of a wait.

    A notice of the time has the words of Qpid's client for Java. `notice_s` is the time between two, 0 for none.
    """

    def __init__(self, notice_s: float) -> None:
        self._reason: str | None = None
        self._reported = False
        self._notice_s = notice_s
        self._answered = -1
        """Messages with an answer, when that changed last or the wait began."""
        self._since = 0.0
        """Time of that."""
        self._notices = 0
        """Whole periods since then of which a notice has told."""

    def tell(self, progress: Progress) -> None:
        """Report the progress."""
        if progress.blocked != self._reason:
            self._reason = progress.blocked
            self.end()
            why = f"held by the broker: {self._reason}" if self._reason else "the broker lets it go on"
            say(f"penstock: {why}", err=True)
        self._tell_delay(progress)
        if sys.stderr.isatty():
            line = f"{progress.published:,} published, {progress.acked:,} confirmed"
            click.echo(f"\r{line}", nl=False, err=True)
            self._reported = True

    def _tell_delay(self, progress: Progress) -> None:
        answered = -1 if progress.blocked is None else progress.acked + progress.nacked
        if answered != self._answered:
            self._answered, self._since, self._notices = answered, time.monotonic(), 0
        if answered < 0 or self._notice_s == 0:
            return
        periods = int((time.monotonic() - self._since) / self._notice_s)
        if periods > self._notices:
            self._notices = periods
            self.end()
            delayed = f"Message send delayed by {periods * self._notice_s:g}s due to broker enforced flow control"
            say(f"penstock: {delayed}: {progress.blocked}", err=True)

    def end(self) -> None:
        """End an unfinished progress line."""
        if self._reported:
            click.echo(err=True)
            self._reported = False


def _bodies(given: tuple[str, ...], file: Path | None, whole: bool) -> Iterator[list[bytes]]:
    """Read the bodies in batches as they arrive: a pipe's content is published before its end."""
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


ACK = click.option("--ack", is_flag=True, help="Acknowledge the messages; default: requeue them.")


@main.command()
@click.argument("queue", shell_complete=names_of("queues"))
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this number of messages.")
@ACK
@click.option("--timeout", metavar="S", type=PATIENCE, help="Stop after S seconds without a message.")
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object, with its properties.")
@URL
def consume(queue: str, count: int | None, ack: bool, timeout: float | None, as_json: bool, url: str) -> None:
    """Print the bodies of QUEUE's messages as they arrive, one per line, until --count, --timeout or Ctrl-C.

    Without --ack at most 1,000 messages are shown; they are requeued at the end, marked as redelivered. For example:
    penstock consume orders --ack --count 10
    """
    most = count if ack else min(count or SHOWN_MOST, SHOWN_MOST)
    with report_errors(), interruptible(), connected(url) as connection:
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
            say(
                f"penstock: {SHOWN_MOST:,} messages are shown; use --ack to take them out of the queue and continue",
                err=True,
            )


@main.command()
@click.argument("queue", shell_complete=names_of("queues"))
@click.option(
    "-n", "--count", type=click.IntRange(1), default=1, show_default=True, help="Print at most this number of messages."
)
@ACK
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object, with its properties.")
@URL
def get(queue: str, count: int, ack: bool, as_json: bool, url: str) -> None:
    """Print the bodies of the first messages of QUEUE, one per line, without waiting for more.

    Without --ack the messages are requeued. Exit code 1: no message was ready. For example: penstock get orders --count
    3
    """
    with report_errors(), interruptible(), connected(url) as connection:
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
            raise ConfigError(f"queue '{queue}' has no ready message; `penstock list queues` shows unacknowledged ones")


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
    shown = {
        "payload": payload,
        "payload_encoding": encoding,
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "redelivered": delivery.redelivered,
        "properties": delivery.properties.as_dict(),
    }
    say_json(shown)
