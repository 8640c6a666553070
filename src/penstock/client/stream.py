"""Non-blocking socket with an input and an output buffer.

A broker that must not be overrun stops reading from its producers. A client that only wrote would never see the reason,
and two peers that wait for each other to read would wait for ever. So a writer here also reads while it waits.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Final

from penstock.client.errors import ConnectionClosed
from penstock.wire.amqp091.codec import CodecError
from penstock.wire.amqp091.spec import FRAME_END, FRAME_OVERHEAD, ReplyCode

SEND_BYTES: Final = 256 * 1024
"""Most octets per send; in between, input is read."""
RECEIVE_BYTES: Final = 256 * 1024
"""Size of the receive buffer, unless a frame needs more."""

DIRECT_BYTES: Final = 16 * 1024
"""Octets from which the rest of a payload is received where it belongs, instead of being copied there."""
_BEHIND: Final = 8
"""Octets that are read behind such a payload: its end mark, and the head of the next frame."""

_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stream:
    """Frames read from a socket, and octets written to it. `frame_max` bounds input; raise it after connection.tune."""

    def __init__(self, sock: socket.socket, frame_max: int) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        self.frame_max = frame_max
        self.out = bytearray()
        """Output in whole frames; append to it and call `flush`."""
        self._sent = 0
        self._in = memoryview(bytearray(RECEIVE_BYTES))
        self._start = 0
        self._end = 0
        self._target: memoryview | None = None
        """The place of a payload that is received directly."""
        self._filled = 0
        """Octets of it that have come."""
        self._head = (0, 0)
        """Kind and channel of its frame."""

    def next_frame(self) -> tuple[int, int, memoryview] | None:
        """Return the next whole frame: kind, channel and payload; None if it is incomplete.

        The payload is valid until `fill`. Raises `CodecError` for an invalid or too large frame.
        """
        if self._target is not None:
            return self._direct_frame(self._target)
        head = self._in[self._start : min(self._start + 7, self._end)]
        if len(head) < 7:
            return None
        size = int.from_bytes(head[3:7], "big")
        if size + FRAME_OVERHEAD > self.frame_max:
            raise CodecError(f"a frame of {size + FRAME_OVERHEAD} octets is larger than {self.frame_max}")
        stop = self._start + 7 + size
        if stop >= self._end:
            return None
        if self._in[stop] != FRAME_END:
            raise CodecError("a frame without its end mark", ReplyCode.FRAME_ERROR)
        payload = self._in[self._start + 7 : stop]
        self._start = stop + 1
        return head[0], int.from_bytes(head[1:3], "big"), payload

    def take_all(self) -> bytes:
        """Return all octets that have come, instead of frames: for a protocol with a framing of its own."""
        found = bytes(self._in[self._start : self._end])
        self._start = self._end = 0
        return found

    def partial_frame(self) -> tuple[int, int, int] | None:
        """Return kind, channel and payload size of the incomplete frame, if `receive_into` is worth it; else None.

        `next_frame` has returned None before, so the size is within bounds.
        """
        if self._target is not None or self._end - self._start < 7:
            return None
        head = self._in[self._start : self._start + 7]
        size = int.from_bytes(head[3:7], "big")
        if size + 7 - (self._end - self._start) < DIRECT_BYTES:
            return None
        return head[0], int.from_bytes(head[1:3], "big"), size

    def receive_into(self, target: memoryview) -> None:
        """Receive the payload of the incomplete frame into `target`, which has its size; `next_frame` returns it."""
        head = self._in[self._start : self._start + 7]
        come = self._in[self._start + 7 : self._end]
        target[: len(come)] = come
        self._head = (head[0], int.from_bytes(head[1:3], "big"))
        self._target, self._filled = target, len(come)
        self._start = self._end = 0

    def _direct_frame(self, target: memoryview) -> tuple[int, int, memoryview] | None:
        if self._filled < len(target) or self._end == self._start:
            return None
        if self._in[self._start] != FRAME_END:
            raise CodecError("a frame without its end mark", ReplyCode.FRAME_ERROR)
        self._start += 1
        self._target = None
        return *self._head, target

    def fill(self, timeout: float) -> bool:
        """Read once, waiting at most `timeout` seconds; False if nothing came. Raises `ConnectionClosed`."""
        deadline, count = 0.0, -1
        while count < 0:
            try:
                count = self._receive()
            except _NOT_NOW:
                deadline = deadline or monotonic() + timeout
                remaining = deadline - monotonic() if timeout > 0 else 0.0
                # Under TLS the socket may be readable and have nothing for us: a record of the protocol's own.
                if remaining <= 0 or not self._wait(select.POLLIN, remaining):
                    return False
            except OSError as error:
                raise ConnectionClosed(None, f"{error.strerror or error}") from error
        if not count:
            raise ConnectionClosed(None, "the broker closed it without giving a reason")
        return True

    def _receive(self) -> int:
        """Read once; return the octets, 0 at the end of the input."""
        if self._target is not None and self._filled < len(self._target):
            rest = self._target[self._filled :]
            if isinstance(self._socket, ssl.SSLSocket):  # It has no recvmsg_into.
                count = self._socket.recv_into(rest)
            else:
                count = self._socket.recvmsg_into((rest, self._in[:_BEHIND]))[0]
            self._filled += min(count, len(rest))
            self._end = max(count - len(rest), 0)
            return count
        self._make_room()
        count = self._socket.recv_into(self._in[self._end :])
        self._end += count
        return count

    def _make_room(self) -> None:
        """Move an incomplete frame to the front, into a larger buffer if necessary."""
        left = self._end - self._start
        if not left:
            self._start = self._end = 0
            return
        needed = RECEIVE_BYTES
        if left >= 7:
            needed = int.from_bytes(self._in[self._start + 3 : self._start + 7], "big") + FRAME_OVERHEAD
        if needed > len(self._in):
            larger = memoryview(bytearray(needed))
            larger[:left] = self._in[self._start : self._end]
            self._in = larger
        elif self._end < len(self._in) and (left < 7 or self._start + needed <= len(self._in)):
            return
        else:
            self._in[:left] = self._in[self._start : self._end]
        self._start = 0
        self._end = left

    def flush(self, timeout: float, on_readable: Callable[[], None]) -> bool:
        """Send the output, calling `on_readable` between pieces; False if that takes longer than `timeout` seconds.

        Unsent output stays for the next call. Raises `ConnectionClosed`.
        """
        deadline = monotonic() + timeout
        while self._sent < len(self.out):
            if self._send_some():
                on_readable()
            else:
                remaining = deadline - monotonic()
                if remaining <= 0:
                    return False
                if self._wait(select.POLLIN | select.POLLOUT, remaining) & _READABLE:
                    on_readable()
        self.out.clear()
        self._sent = 0
        return True

    @property
    def unsent(self) -> int:
        """Number of unsent octets."""
        return len(self.out) - self._sent

    def _send_some(self) -> bool:
        with memoryview(self.out) as view, view[self._sent : self._sent + SEND_BYTES] as piece:
            try:
                self._sent += self._socket.send(piece)
            except _NOT_NOW:
                return False
            except OSError as error:
                raise ConnectionClosed(None, f"{error.strerror or error}") from error
        return True

    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll beside others."""
        return self._socket.fileno()

    def _wait(self, events: int, timeout: float) -> int:
        self._poll.modify(self._socket.fileno(), events)
        ready = self._poll.poll(max(1, round(timeout * 1000)))
        return ready[0][1] if ready else 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
