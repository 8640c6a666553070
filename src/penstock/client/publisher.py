"""Publisher: batches with confirms and a window, with progress reports while it waits.

Frames are built into one buffer and sent in pieces of at most 256 KiB; between the pieces confirms are counted. If the
broker withholds confirms or stops reading, `publish` waits. It reports that in intervals to the caller, who may stop
waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from time import monotonic
from typing import Final, NamedTuple

from penstock.client.channel import Channel
from penstock.client.connection import Connection
from penstock.client.content import Returned
from penstock.client.errors import Timeout
from penstock.client.stream import SEND_BYTES
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Properties, encode_header, frame, method_frame

SLICE: Final = 2.0
"""Seconds between two progress reports to a waiting caller."""
_KEYS_MAX: Final = 1024
"""Most encoded routing keys in the cache."""

Body = bytes | bytearray | memoryview


class Progress(NamedTuple):
    """Progress of a publisher; counts since it began."""

    published: int
    acked: int
    nacked: int
    returned: int
    outstanding: int
    """Messages without a confirm."""
    blocked: str | None
    """Reason why the broker accepts no publishes at present, if it gave one."""

    @property
    def done(self) -> bool:
        """True if every message has its answer."""
        return self.outstanding == 0


class Publisher:
    """Publisher to `exchange`, with `routing_key` unless messages bring their own, on a channel of its own.

    At most `window` messages are without their confirm at a time. With `mandatory`, unroutable messages come back (and
    are confirmed all the same): see `returned`. `patience` is the number of seconds without any progress after which
    `Timeout` is raised; None waits for ever. `report_every` is the number of seconds between two progress reports.
    """

    def __init__(
        self,
        connection: Connection,
        exchange: str = "",
        routing_key: str = "",
        *,
        window: int = 1000,
        mandatory: bool = False,
        patience: float | None = None,
        report_every: float = SLICE,
    ) -> None:
        if window < 1:
            raise ValueError(f"the window must be at least 1 message, not {window}")
        self._connection = connection
        self._channel: Channel = connection.channel()
        self._confirms = self._channel.confirm_select()
        self._exchange = exchange
        self._routing_key = routing_key
        self._window = window
        self._mandatory = mandatory
        self._patience = patience
        self._slice = report_every if patience is None else min(report_every, patience)
        self._moved: tuple[int, int, int] = (0, 0, 0)
        self._moved_at = monotonic()
        """Time of the last known progress."""
        self._methods: dict[str, bytes] = {}
        self._body_max = connection.frame_max - spec.FRAME_OVERHEAD
        self._body_head = bytes([spec.FRAME_BODY]) + self._channel.number.to_bytes(2, "big")

    # -- publishing --------------------------------------------------------------------------------------------------

    def publish(
        self,
        bodies: Iterable[Body],
        routing_keys: Iterable[str] | None = None,
        properties: Properties | Iterable[Properties] | None = None,
        on_wait: Callable[[Progress], None] | None = None,
    ) -> range:
        """Send every body, waiting whenever the window is full; return the numbers of the messages.

        The n-th body has the n-th number of the range; `take_nacked` uses these numbers. Iterables of keys or
        properties have one per body, else `ValueError`. While it waits, `on_wait` gets the progress, and may raise to
        stop waiting. The messages taken by then are complete, and are sent with the next call. On return, the last
        messages may still lack their confirm: see `wait`.
        """
        self._channel.check()
        self._moved_at = monotonic()
        first = self._confirms.next
        for body, key, header in self._messages(bodies, routing_keys, properties):
            if self._confirms.outstanding >= self._window or not self._channel.active:
                self._make_room(on_wait)
            self._append(body, key, header)
            if len(self._connection.out) >= SEND_BYTES:
                self._push(on_wait)
        self._push(on_wait)
        return range(first, self._confirms.next)

    def _messages(
        self,
        bodies: Iterable[Body],
        routing_keys: Iterable[str] | None,
        properties: Properties | Iterable[Properties] | None,
    ) -> Iterable[tuple[Body, str, _Header]]:
        keys = repeat(self._routing_key) if routing_keys is None else routing_keys
        pairs = zip(bodies, keys, strict=routing_keys is not None)
        number = self._channel.number
        if properties is None or isinstance(properties, Properties):
            shared = _Header(number, properties or Properties())
            return ((body, key, shared) for body, key in pairs)
        rows = zip(pairs, properties, strict=True)
        return ((body, key, _Header(number, one)) for (body, key), one in rows)

    def _append(self, body: Body, key: str, header: _Header) -> None:
        """Append one message to the buffer: three frames, or more for a large body."""
        out = self._connection.out
        if not isinstance(body, bytes):
            body = memoryview(body).cast("B")
        size = len(body)
        out += self._methods.get(key) or self._method(key)
        out += header.head
        out += size.to_bytes(8, "big")
        out += header.tail
        if size <= self._body_max:
            if size:
                out += self._body_head
                out += size.to_bytes(4, "big")
                out += body
                out.append(spec.FRAME_END)
        else:
            view = memoryview(body)
            for start in range(0, size, self._body_max):
                out += frame(spec.FRAME_BODY, self._channel.number, bytes(view[start : start + self._body_max]))
        self._confirms.next += 1

    def _method(self, key: str) -> bytes:
        """Return the frame of basic.publish, which is the same for every message with this routing key."""
        if len(self._methods) >= _KEYS_MAX:
            self._methods.clear()
        encoded = method_frame(
            self._channel.number,
            spec.BASIC_PUBLISH,
            exchange=self._exchange,
            routing_key=key,
            mandatory=self._mandatory,
        )
        self._methods[key] = encoded
        return encoded

    # -- waiting -----------------------------------------------------------------------------------------------------

    def wait(self, timeout: float = SLICE) -> Progress:
        """Wait until every message has its confirm, at most `timeout` seconds; return the progress.

        Call it until `done`. Raises `ChannelClosed` or `ConnectionClosed` when the broker closes, and `Timeout` after
        `patience` seconds without progress, in this call and those before.
        """
        deadline = monotonic() + timeout
        while self._unfinished():
            remaining = deadline - monotonic()
            if remaining <= 0:
                break
            self._turn(min(remaining, self._slice))
            self._check_patience()
        return self.progress()

    def progress(self) -> Progress:
        """Return the progress, without waiting."""
        confirms = self._confirms
        return Progress(
            published=confirms.next - 1,
            acked=confirms.acked,
            nacked=confirms.nacked_count,
            returned=self._channel.returned_count,
            outstanding=confirms.outstanding,
            blocked=self._connection.blocked,
        )

    def take_nacked(self) -> list[int]:
        """Take the numbers of refused messages since the last call; publish them again or report them."""
        return self._confirms.take_nacked()

    @property
    def returned(self) -> list[Returned]:
        """Return the latest messages, at most 100, that reached no queue; `Progress.returned` counts all."""
        return list(self._channel.returned)

    @property
    def refusal(self) -> str:
        """Return the broker's reason for the last refused mandatory message; empty without one."""
        return self._channel.refusal

    def close(self) -> None:
        """Close the channel; later confirms are lost."""
        self._channel.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if not isinstance(error, Timeout):  # Otherwise close would wait for an answer, too.
            self.close()

    def _unfinished(self) -> bool:
        return self._confirms.outstanding > 0 or self._connection.unsent > 0

    def _push(self, on_wait: Callable[[Progress], None] | None) -> None:
        """Send the buffer, and count confirms meanwhile."""
        self._wait_until(lambda: self._connection.unsent == 0, on_wait)

    def _make_room(self, on_wait: Callable[[Progress], None] | None) -> None:
        """Wait for room in the window."""
        self._wait_until(lambda: self._confirms.outstanding < self._window and self._channel.active, on_wait)

    def _wait_until(self, happened: Callable[[], bool], on_wait: Callable[[Progress], None] | None) -> None:
        while True:
            slice_end = monotonic() + self._slice
            while not happened() and (remaining := slice_end - monotonic()) > 0:
                self._turn(remaining)
            self._channel.check()
            if happened():
                return
            self._check_patience()
            if on_wait is not None:
                on_wait(self.progress())

    def _turn(self, timeout: float) -> None:
        """Send and read once, waiting at most `timeout` seconds."""
        self._channel.check()
        if self._connection.unsent:
            self._connection.flush(timeout)
        else:
            self._connection.read(timeout)

    def _check_patience(self) -> None:
        """Check the time since the last progress. Raises `Timeout`."""
        standing = self._confirms.next, self._confirms.outstanding, self._connection.unsent
        if standing != self._moved:
            self._moved = standing
            self._moved_at = monotonic()
        elif self._patience is not None and monotonic() - self._moved_at >= self._patience:
            why = f": {self._connection.blocked}" if self._connection.blocked else ""
            raise Timeout(f"the broker confirmed nothing for {self._patience:g} s{why}")


class _Header:
    """Content header frame; messages with the same properties differ only in the body size."""

    __slots__ = ("head", "tail")

    def __init__(self, channel: int, properties: Properties) -> None:
        whole = frame(spec.FRAME_HEADER, channel, encode_header(0, properties))
        self.head = whole[:11]  # frame head (7), class and weight
        self.tail = whole[19:]
