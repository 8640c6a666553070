"""Commands for messages: publish, consume and get."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from penstock.cli.common import (
    control_session,
    interruptible,
    near_match,
    print_result,
    say,
    say_json,
    writing,
)
from penstock.cli.parameters import Url, command, option
from penstock.cli.progress import PROGRESS_S, Progress
from penstock.content.message_rows import message_row
from penstock.errors import ConfigError
from penstock.operations.command import pairs
from penstock.settings.kind import SECONDS, whole
from penstock.texts import counted

if TYPE_CHECKING:
    from penstock.client.blocking import Connection, Publisher
    from penstock.client.engine.messages import Message
    from penstock.client.engine.receiver import Delivery
    from penstock.client.engine.window import SendResult
    from penstock.content.properties import Properties

PATIENCE = SECONDS
NOTICE_S = 5.0
"""Default seconds between two notices of a delayed message: Qpid's qpid.flow_control_wait_notify_period."""
QUIET_S = 86_400
"""Seconds between two warnings of the client in its log; the command has warnings of its own."""
READ_BYTES = 256 * 1024
"""Bytes read from a file at once."""
UNROUTABLE = ("NO_ROUTE", "NO_CONSUMERS")
"""Reasons of messages that reached no queue; messages with other reasons were refused."""
SHOWN_MOST = 1000
"""Most messages that `consume` shows without --ack: they stay unacknowledged until the command ends."""
EXCHANGE: Final = "Publish to this exchange; default: the default exchange, where KEY is a queue name."
TIMEOUT: Final = "Give up after S seconds without any confirm; default: wait for ever."
OWN_PROPERTIES: Final = (
    "--json reads messages with their properties: leave --whole, --content-type, --header and --delay out"
)
NOTICE: Final = "Say each S seconds by how long a message is delayed, and why; 0: never."
STOP: Final = "Stop after this number of messages."
AT_MOST: Final = "Print at most this number of messages."
Queue = Annotated[str, option(names="queues")]
Ack = Annotated[bool, "Acknowledge the messages; default: requeue them."]
Bodies = Annotated[bool, option("Print each message as a JSON object, with its properties.", option="--json")]
WITH_PROGRESS: Final = "Show the progress on standard error; a terminal shows it without this option."
Shown = Annotated[bool, option(WITH_PROGRESS, option="--progress")]
LINES: Final = "Read messages as JSON lines from the input, as consume and browse print them; print the result as JSON."
TO_ORIGIN: Final = "With --json: publish each message to its own exchange and routing key; KEY is for messages without."


@command()
def publish(
    key: Queue,
    bodies: Annotated[tuple[str, ...], option(metavar="[BODY]...", required=False)],
    exchange: Annotated[str, option(EXCHANGE, option="-e --exchange", default="", names="exchanges")],
    file: Annotated[Path | None, option("Read messages from this file; - is standard input.", option="-f --file")],
    whole: Annotated[bool, "Read one message from the whole input, not one per line."],
    persistent: Annotated[bool, "Set delivery mode 2, so that a durable queue stores the messages."],
    content_type: Annotated[str | None, option("Set the content type, such as application/json.", "TYPE")],
    headers: Annotated[tuple[str, ...], option("Add a header; may be repeated.", "NAME=VALUE", "--header")],
    delay: Annotated[float | None, option("Deliver the messages after S seconds.", "S", kind=PATIENCE)],
    timeout: Annotated[float | None, option(TIMEOUT, "S", kind=PATIENCE)],
    notice: Annotated[float, option(NOTICE, "S", kind=PATIENCE, default=NOTICE_S)],
    as_json: Annotated[bool, option(LINES, option="--json")],
    to_origin: Annotated[bool, option(TO_ORIGIN, option="--to-origin")],
    progress: Shown,
    url: Url,
) -> None:
    """Publish each BODY with routing key KEY; without BODY, each line of --file or of standard input.

    Waits until the broker has confirmed all messages, and reports on standard error which gate withholds confirms. With
    --json a line is a message with its properties; an invalid line ends the command after the messages before it. Exit
    code 1: a message was refused or reached no queue, or a line is invalid.

    For example: penstock queues publish orders 'one order', or
    penstock queues publish eu.orders --exchange logs --file orders.txt, or
    penstock queues publish orders --json --file orders.jsonl
    """
    from penstock.client.engine.window import SendResult
    from penstock.content.properties import Properties

    with interruptible():
        if bodies and (file is not None or whole):
            raise ConfigError("BODY and --file (or --whole) exclude each other: give bodies or a file")
        _check_lines(as_json and not bodies, whole, to_origin, content_type or headers or delay)
        properties = Properties(content_type=content_type, headers=pairs(headers) or None)
        result = SendResult()
        with control_session(url, **({} if delay is None else {"protocol": "amqp10"})) as connection:
            publisher = connection.publisher(
                exchange=exchange, routing_key=key, durable=persistent, flow_control_wait_notify_period=QUIET_S
            )
            sending = Sending(connection, publisher, result, timeout, notice, progress)
            with _explained(sending, result, as_json):
                if as_json and not bodies:
                    _send_lines(sending, file, persistent, to_origin, connection.protocol == "amqp10")
                else:
                    for messages in _messages(_bodies(bodies, file, whole), properties, delay):
                        sending.send(messages)
            unroutable = sum(each.reason in UNROUTABLE for each in result.refused)
            near = near_match(connection, f"no queue '{key}'") if unroutable and not exchange else ""
    _print_result(result, unroutable, near, as_json)


@contextlib.contextmanager
def _explained(sending: Sending, result: SendResult, as_json: bool) -> Iterator[None]:
    """End the line of progress; an error, and Ctrl-C, have the outcomes so far. Raises ConfigError."""
    from penstock.cli.message_lines import InvalidLine
    from penstock.client.errors import ConnectionClosed, Timeout

    try:
        yield
        sending.reporter.end()
    except KeyboardInterrupt:
        sending.reporter.end()
        _print_interrupted(result, as_json)
        raise
    except InvalidLine as error:
        sending.reporter.end()
        raise ConfigError(f"{error}; {_before(result)}") from None
    except Timeout as error:
        raise ConfigError(f"gave up: {error}; {_confirmed(result)}") from None
    except (ConnectionClosed, ValueError) as error:
        raise ConfigError(f"{error}; {_confirmed(result)}") from None


def _print_interrupted(result: SendResult, as_json: bool) -> None:
    """Print the outcomes so far: a last line on standard error, and with --json the result as well."""
    unroutable = sum(each.reason in UNROUTABLE for each in result.refused)
    refused = result.refused_count - unroutable
    unknown = result.taken - result.confirmed - result.refused_count
    counts = ((refused, "refused"), (unroutable, "reached no queue"), (unknown, "unknown"))
    words = [f"{result.confirmed:,} confirmed", *(f"{count:,} {what}" for count, what in counts if count)]
    may = "; unknown messages may be in their queues" if unknown else ""
    say(f"penstock: interrupted: {', '.join(words)}{may}", err=True)
    if as_json:
        say_json({**_answer(result, unroutable), "unknown": unknown, "error": "interrupted"})


def _answer(result: SendResult, unroutable: int) -> dict[str, object]:
    """Return the outcomes of the messages as JSON."""
    return {
        "published": result.taken,
        "confirmed": result.confirmed + unroutable,
        "refused": result.refused_count - unroutable,
        "unroutable": unroutable,
    }


def _send_lines(sending: Sending, file: Path | None, persistent: bool, to_origin: bool, by_links: bool) -> None:
    """Send the messages of a file of JSON lines. Raises InvalidLine after the messages before the line."""
    from penstock.cli.message_lines import MessageLines

    with _opened(file) as source:
        for messages in MessageLines(source, persistent, to_origin, by_links).batches():
            sending.send(messages)


def _check_lines(are_lines: bool, whole: bool, to_origin: bool, more: object) -> None:
    """Raise ConfigError for options that do not go together: a line of JSON has properties of its own."""
    if are_lines and (whole or more):
        raise ConfigError(OWN_PROPERTIES)
    if to_origin and not are_lines:
        raise ConfigError("--to-origin is for messages of --json, which have an exchange and a routing key")


def _before(result: SendResult) -> str:
    """Describe the messages before an invalid line."""
    refused = f", and {result.refused_count:,} are refused" if result.refused_count else ""
    are = "is" if result.confirmed == 1 else "are"
    return f"{counted(result.confirmed, 'message')} before the line {are} published and confirmed{refused}"


def _print_result(result: SendResult, unroutable: int, near: str, as_json: bool) -> None:
    """Print the outcomes of the messages; exit code 1 if any was refused or reached no queue."""
    refused = result.refused_count - unroutable
    sentence = f"{counted(result.confirmed, 'message')} published"
    if refused:
        why = next((each.reason for each in reversed(result.refused) if each.reason not in ("", *UNROUTABLE)), "")
        sentence += f"; {refused:,} refused ({why or '`penstock why` says what is at its capacity'})"
    if unroutable:
        why = next(each.reason for each in result.refused if each.reason in UNROUTABLE)
        sentence += f"; {unroutable:,} reached no queue ({why}){near}"
    print_result(as_json, _answer(result, unroutable), sentence)
    if result.refused_count:
        sys.exit(1)


class Sending:
    """Messages on their way to the broker, with reports while they wait.

    `timeout` is the number of seconds without any confirm after which `Timeout` is raised; None waits forever.
    """

    def __init__(
        self,
        connection: Connection,
        publisher: Publisher,
        result: SendResult,
        timeout: float | None,
        notice_s: float,
        progress: bool = False,
    ) -> None:
        self._connection, self._publisher, self._result = connection, publisher, result
        self._timeout = timeout
        self._wait_s = _report_s(notice_s) if timeout is None else min(_report_s(notice_s), timeout)
        self._moved: tuple[int, int] = (-1, -1)
        self._moved_at = 0.0
        """Time of the last known progress."""
        self.reporter = Reporter(notice_s, progress)

    def send(self, messages: Sequence[bytes | Message]) -> None:
        """Send messages, and wait for their outcomes."""
        from penstock.client.engine.outcomes import ConfirmTimeout, FlowControlTimeout

        result, first = self._result, self._result.taken
        self._moved_at = time.monotonic()
        while True:
            left = messages[result.taken - first :] if result.taken > first else messages
            try:
                self._publisher.send_many(left, timeout=self._wait_s, result=result)
                if result.unknown or result.refused_count:
                    self._publisher.send_many(())  # Raises the error that ended the publisher.
                self.reporter.count(result)
                return
            except (ConfirmTimeout, FlowControlTimeout):
                self._check_timeout()
                self.reporter.tell(result, self._blocked())

    def _blocked(self) -> str | None:
        """Return why the broker accepts no message; None if unknown."""
        blocked = self._publisher.blocked
        return self._connection.blocked or (None if blocked is None or blocked.queue is None else blocked.reason)

    def _check_timeout(self) -> None:
        from penstock.client.errors import Timeout

        moved = self._result.taken, self._result.under_way
        if moved != self._moved:
            self._moved, self._moved_at = moved, time.monotonic()
        elif self._timeout is not None and time.monotonic() - self._moved_at >= self._timeout:
            why = self._blocked()
            raise Timeout(f"the broker confirmed nothing for {self._timeout:g} s{f': {why}' if why else ''}")


def _messages(
    batches: Iterator[list[bytes]], properties: Properties, delay: float | None
) -> Iterator[Sequence[bytes | Message]]:
    """Return bodies as messages; bodies without properties are sent on a shorter path."""
    from penstock.client.engine.messages import Message

    if not properties.as_dict() and delay is None:
        yield from batches
        return
    for bodies in batches:
        yield [Message(body, properties=properties, delay=delay) for body in bodies]


def _report_s(notice_s: float) -> float:
    """Return the seconds between two reports, if a notice may be due each `notice_s`."""
    return min(PROGRESS_S, notice_s or PROGRESS_S)


def _confirmed(result: SendResult) -> str:
    """Describe how many messages are confirmed while others never get an answer."""
    went = f"{result.confirmed:,} of {result.taken:,} messages are confirmed"
    return f"{went}, and those without an answer may still be accepted"


class Reporter:
    """Reporter on standard error: progress on a terminal or if it is `wanted`, and the reason and time of each wait.

    A notice of the time has the words of Qpid's client for Java. `notice_s` is the time between two notices, 0 for
    none.
    """

    def __init__(self, notice_s: float, wanted: bool = False) -> None:
        self._reason: str | None = None
        self._progress = Progress(wanted)
        self._notice_s = notice_s
        self._answered = -1
        """Answered messages at the last change, or at the beginning of the wait."""
        self._since = 0.0
        """Time of that change or beginning."""
        self._notices = 0
        """Whole periods since then that have had a notice."""

    def tell(self, result: SendResult, blocked: str | None) -> None:
        """Report the progress, and why the broker accepts no message; None if unknown."""
        if blocked != self._reason:
            self._reason = blocked
            self.end()
            why = f"waiting: {self._reason}" if self._reason else "the broker accepts messages again"
            say(f"penstock: {why}", err=True)
        self._tell_delay(result.taken - result.under_way, blocked)
        held = f", waiting: {blocked}" if blocked else ""
        self._progress.show(f"{_progress_words(result)}{held}")

    def count(self, result: SendResult) -> None:
        """Report the progress while messages are accepted."""
        self._progress.tell(_progress_words(result))

    def _tell_delay(self, answered: int, blocked: str | None) -> None:
        answered = -1 if blocked is None else answered
        if answered != self._answered:
            self._answered, self._since, self._notices = answered, time.monotonic(), 0
        if answered < 0 or self._notice_s == 0:
            return
        periods = int((time.monotonic() - self._since) / self._notice_s)
        if periods > self._notices:
            self._notices = periods
            self.end()
            delayed = f"Message send delayed by {periods * self._notice_s:g}s due to broker enforced flow control"
            say(f"penstock: {delayed}: {blocked}", err=True)

    def end(self) -> None:
        """End an unfinished progress line."""
        self._progress.end()


def _progress_words(result: SendResult) -> str:
    return f"{result.taken:,} published, {result.confirmed:,} confirmed"


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


@command()
def consume(
    queue: Queue,
    count: Annotated[int | None, option(STOP, option="-n --count", kind=whole(1))],
    ack: Ack,
    timeout: Annotated[float | None, option("Stop after S seconds without a message.", "S", kind=PATIENCE)],
    as_json: Bodies,
    progress: Shown,
    url: Url,
) -> None:
    """Print the bodies of QUEUE's messages as they arrive, one per line, until --count, --timeout or Ctrl-C.

    Without --ack at most 1,000 messages are shown; they are requeued at the end, marked as redelivered. A last line on
    standard error has their number. For example: penstock queues consume orders --ack --count 10
    """
    most = count if ack else min(count or SHOWN_MOST, SHOWN_MOST)
    from penstock.client.errors import LinkClosed

    prefetch = min(most or SHOWN_MOST, SHOWN_MOST)
    printed = Printed(progress, ack)
    with interruptible(), control_session(url) as connection:
        receiver = connection.receiver(queue, prefetch=prefetch, consumerWindowSize=-1)
        with printed.ended():
            while most is None or printed.messages < most:
                try:
                    delivery = receiver.receive(timeout)
                except LinkClosed as error:
                    if error.code is None:
                        raise ConfigError(f"queue '{queue}' was deleted") from None
                    raise
                if delivery is None:
                    break
                printed.messages += 1  # Before its line is visible, in case of an interrupt.
                _print(delivery, as_json)
                printed.settle(delivery)
        if not ack and count is None and printed.messages == SHOWN_MOST:
            say(
                f"penstock: {SHOWN_MOST:,} messages are shown; use --ack to take them out of the queue and continue",
                err=True,
            )


class Printed:
    """Messages that a command has printed, with their progress and a last line."""

    def __init__(self, progress: bool, ack: bool) -> None:
        self.messages = 0
        self._ack = ack
        self._accepted = 0
        self._progress = Progress(progress, mixed=True)

    def settle(self, delivery: Delivery) -> None:
        """Acknowledge a printed message if this is wanted, and show the progress."""
        if self._ack:
            delivery.accept()
            self._accepted += 1
        self._progress.tell(self._words())

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """Write the last line in the end, also after an error or Ctrl-C."""
        why = ""
        try:
            yield
        except KeyboardInterrupt:
            why = "interrupted: "
            raise
        finally:
            self._progress.end()
            say(f"penstock: {why}{self._words()}", err=True)

    def _words(self) -> str:
        what = f"{self._accepted:,} acknowledged" if self._ack else "requeued"
        return f"{counted(self.messages, 'message')} printed, {what}"


@command()
def get(
    queue: Queue,
    count: Annotated[int, option(AT_MOST, option="-n --count", kind=whole(1), default=1)],
    ack: Ack,
    as_json: Bodies,
    url: Url,
) -> None:
    """Print the bodies of the first messages of QUEUE, one per line, without waiting for more.

    Without --ack the messages are requeued. Exit code 1: no message was ready.

    For example: penstock queues get orders --count 3
    """
    with interruptible(), control_session(url) as connection:
        receiver = connection.receiver(queue, consumerWindowSize=0)
        found = 0
        while found < count and (delivery := receiver.get()) is not None:
            found += 1
            _print(delivery, as_json)
            if ack:
                delivery.accept()
        if not found:
            raise ConfigError(f"queue '{queue}' has no ready message; `penstock queues list` shows unacknowledged ones")


def _print(delivery: Delivery, as_json: bool) -> None:
    if not as_json:
        with writing():
            sys.stdout.buffer.write(delivery.body + b"\n")
            sys.stdout.buffer.flush()
        return
    redelivered = delivery.redelivered
    say_json(message_row(delivery.properties, delivery.body, delivery.exchange, delivery.routing_key, redelivered))
