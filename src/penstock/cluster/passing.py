"""Passing of clients from the process that logs them in to the process of a shard, over one channel a shard.

Theory of operation. The channel is a pair of sockets that keeps packets (SOCK_SEQPACKET). A packet has one descriptor,
a number, a seal and the record of the login. The shard answers `taken` before it acts on the client's input. Until then
the first process keeps its copy of the socket, and writes nothing to it. So a shard that ends earlier costs the client
nothing: another process may serve the client. An end of the channel after that answer is the end of the client.

The seal is a digest with a key that both processes have from their common ancestor. Numbers increase by one. So a
packet that is altered, of another channel, or sent again is refused.

Bounds: packets without an answer (`UNANSWERED_MOST`), clients that wait for their packet (`WAITING_MOST`), and clients
that the shard takes per pass of its loop (`TAKEN_AT_ONCE`).
"""

from __future__ import annotations

import array
import asyncio
import errno
import hashlib
import hmac
import secrets
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from penstock.errors import PenstockError
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.server.login_record import PACKET_OCTETS_MOST, LoginRecord, RecordError

KEY_OCTETS: Final = 32
SEAL_OCTETS: Final = 16
NUMBER_OCTETS: Final = 8
HEAD: Final = NUMBER_OCTETS + SEAL_OCTETS
"""Bytes of a packet before the record."""
TAKEN: Final = b"T"
REFUSED: Final = b"R"
"""First byte of an answer; the number of its packet follows, and the reason of a refusal."""
ANSWER_OCTETS: Final = 512
NO_RECORD: Final = 0
"""First byte of the packet of a client that has not logged in; the number of its connection follows."""
Handed: TypeAlias = LoginRecord | int
"""Record of the login of a socket's client; for a client without a login, the number of its connection."""
UNANSWERED_MOST: Final = 64
"""Most packets without an answer: their descriptors count towards the limit of open files of the user."""
WAITING_MOST: Final = 10_000
"""Most clients that wait for their packet to be sent."""
TAKEN_AT_ONCE: Final = 20
"""Clients that a shard takes per pass of its loop."""
ANSWERS_AT_ONCE: Final = 100
RETRY_S: Final = 0.01
"""Seconds until another attempt when the system has no room for descriptors."""
NO_ROOM: Final = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
GONE: Final = "the process of the shard has ended"


class NotTaken(PenstockError):
    """The shard has not taken the client, and never will: another process may."""


class ClientRefused(PenstockError):
    """The client cannot be passed on, to this process of the shard or another."""


class StillPassing(PenstockError):
    """The wait was cancelled after the packet was sent: the shard may take the client at any time."""


def new_key() -> bytes:
    """Return a key for both ends of a channel."""
    return secrets.token_bytes(KEY_OCTETS)


def new_channel() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a channel, which do not block."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


def seal(key: bytes, number: bytes, record: bytes) -> bytes:
    """Return the seal of a packet."""
    return hashlib.blake2b(number + record, digest_size=SEAL_OCTETS, key=key).digest()


class _Passed:
    """One client on its way."""

    def __init__(self, record: bytes, sock: socket.socket, answered: asyncio.Future[str]) -> None:
        self.record = record
        self.sock = sock
        self.answered = answered
        """Reason of a refusal; empty once the shard has the client. NotTaken if the shard has ended."""
        self.is_sent = False


class Passer:
    """End of a channel in the process that logs clients in."""

    def __init__(self, channel: socket.socket, key: bytes) -> None:
        """Begin in the running loop. `channel` does not block, and belongs to the passer from now on."""
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._key = key
        self._number = 0
        """Number of the last packet that was sent."""
        self._waiting: deque[_Passed] = deque()
        self._unanswered: dict[int, _Passed] = {}
        self._is_open = True
        self._writes = False
        """True while the channel is watched for room, or a timer for another attempt runs."""
        self._loop.add_reader(channel, self._on_answers)

    def is_open(self) -> bool:
        """Return whether the shard's process may still take clients."""
        return self._is_open

    def waiting(self) -> int:
        """Return the number of clients that the shard has not taken yet."""
        return len(self._waiting) + len(self._unanswered)

    async def pass_on(self, record: Handed, sock: socket.socket) -> None:
        """Pass a client on; return when the shard has taken it, before it acts on the client's input.

        With a number alone, handshake and login are the shard's.

        Raises NotTaken, ClientRefused, RecordError for a record with too many bytes, and StillPassing if the wait is
        cancelled too late. The caller keeps the socket open meanwhile, and closes it after the return.
        """
        packet = _stranger(record) if isinstance(record, int) else record.packet()
        if not self._is_open:
            raise NotTaken(GONE)
        if len(self._waiting) >= WAITING_MOST:
            raise ClientRefused(f"{WAITING_MOST} clients wait for the shard")
        passed = _Passed(packet, sock, self._loop.create_future())
        self._waiting.append(passed)
        if not self._writes:
            self._send()
        try:
            refusal = await passed.answered
        except asyncio.CancelledError:
            if passed.is_sent:
                raise StillPassing("the shard has a client that it has not answered for") from None
            raise
        if refusal:
            raise ClientRefused(refusal)

    def close(self) -> None:
        """Close the channel: clients that are on their way are not taken, as far as this process knows."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._channel.close()
        for passed in [*self._unanswered.values(), *self._waiting]:
            if not passed.answered.done():
                passed.answered.set_exception(NotTaken(GONE))
        self._unanswered.clear()
        self._waiting.clear()

    def _send(self) -> None:
        """Send packets in their order, as far as the channel takes them."""
        self._writes = False
        self._loop.remove_writer(self._channel)
        while self._waiting and len(self._unanswered) < UNANSWERED_MOST:
            passed = self._waiting[0]
            if not passed.answered.done():
                try:
                    self._send_one(passed)
                except (BlockingIOError, InterruptedError):
                    self._writes = True
                    self._loop.add_writer(self._channel, self._send)
                    return
                except OSError as error:
                    if not self._fail(passed, error):
                        return
            self._waiting.popleft()

    def _send_one(self, passed: _Passed) -> None:
        number = (self._number + 1).to_bytes(NUMBER_OCTETS, "big")
        head = number + seal(self._key, number, passed.record)
        descriptors = array.array("i", [passed.sock.fileno()])
        self._channel.sendmsg([head, passed.record], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        self._number += 1
        passed.is_sent = True
        self._unanswered[self._number] = passed

    def _fail(self, passed: _Passed, error: OSError) -> bool:
        """Handle a packet that could not be sent; return whether the next packet follows."""
        if error.errno in NO_ROOM:
            self._writes = True
            self._loop.call_later(RETRY_S, self._retry)
            return False
        if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
            self._on_answers()  # The shard may have answered before its end.
            self.close()
            return False
        passed.answered.set_result(f"the socket cannot be passed on: {error.strerror or error}")
        return True

    def _retry(self) -> None:
        if self._is_open:
            self._send()

    def _on_answers(self) -> None:
        """Read answers. An end of the shard counts after the answers that it has left."""
        for _ in range(ANSWERS_AT_ONCE):
            if not self._is_open:
                return
            try:
                answer = self._channel.recv(ANSWER_OCTETS)
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionResetError:  # The shard has left packets unread; its answers can still be read.
                continue
            except OSError:
                answer = b""
            if not answer:
                self.close()
                return
            self._on_answer(answer)
        if self._waiting and not self._writes:
            self._send()

    def _on_answer(self, answer: bytes) -> None:
        number = int.from_bytes(answer[1 : 1 + NUMBER_OCTETS], "big")
        passed = self._unanswered.pop(number, None)
        if passed is None or passed.answered.done():
            return
        reason = "" if answer.startswith(TAKEN) else answer[1 + NUMBER_OCTETS :].decode(errors="replace")
        passed.answered.set_result(reason)


def _stranger(number: int) -> bytes:
    return b"%c%b" % (NO_RECORD, number.to_bytes(NUMBER_OCTETS, "big"))


Take = Callable[[socket.socket, LoginRecord], Awaitable[None]]
"""Function that serves a client. Raises OSError if the client has disconnected, and RecordError."""
TakeStranger = Callable[[socket.socket, int], Awaitable[None]]
"""Function that serves a client that has not logged in, with the number of its connection.

Raises OSError if the client has disconnected, and RecordError.
"""


class Taker:
    """End of a channel in the process of a shard."""

    def __init__(
        self,
        channel: socket.socket,
        key: bytes,
        take: Take,
        on_end: Callable[[], None],
        take_stranger: TakeStranger | None = None,
    ) -> None:
        """Begin in the running loop. `on_end` is called once when the other process has closed its end.

        Without `take_stranger`, clients that have not logged in are refused.
        """
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._key = key
        self._take = take
        self._take_stranger = take_stranger
        self._on_end = on_end
        self._number = 0
        """Number of the last packet that was read."""
        self._pending_answer: tuple[bytes, socket.socket | None, Handed] | None = None
        """Answer that the channel did not take, with its client; nothing is read meanwhile."""
        self._beginning: set[asyncio.Task[None]] = set()
        self._loop.add_reader(channel, self._on_packets)

    def close(self) -> None:
        """Close the channel. Clients whose packets were not read go back to the other process."""
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()
        if self._pending_answer is not None:
            sock = self._pending_answer[1]
            self._pending_answer = None
            if sock is not None:
                sock.close()

    def _end(self) -> None:
        self.close()
        self._on_end()

    def _on_packets(self) -> None:
        for _ in range(TAKEN_AT_ONCE):
            if self._pending_answer is not None or self._channel.fileno() < 0:
                return
            try:
                packet, descriptors, flags, _ = socket.recv_fds(
                    self._channel, HEAD + PACKET_OCTETS_MOST + 1, 2, socket.MSG_CMSG_CLOEXEC
                )
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                packet, descriptors, flags = b"", [], 0
            if not packet:
                self._end()
                return
            self._on_packet(packet, [socket.socket(fileno=each) for each in descriptors], flags)

    def _on_packet(self, packet: bytes, socks: list[socket.socket], flags: int) -> None:
        try:
            record = self._read(packet, socks, flags)
        except RecordError as error:
            for sock in socks:
                sock.close()
            number = packet[:NUMBER_OCTETS].ljust(NUMBER_OCTETS, b"\x00")
            self._answer(REFUSED + number + str(error).encode()[: ANSWER_OCTETS // 2], None, 0)
            return
        socks[0].setblocking(False)
        self._answer(TAKEN + packet[:NUMBER_OCTETS], socks[0], record)

    def _read(self, packet: bytes, socks: list[socket.socket], flags: int) -> Handed:
        """Return the record of a packet. Raises RecordError."""
        number, record = packet[:NUMBER_OCTETS], packet[HEAD:]
        if not hmac.compare_digest(packet[NUMBER_OCTETS:HEAD], seal(self._key, number, record)):
            raise RecordError("record of a login has an invalid seal")
        count = int.from_bytes(number, "big")
        if count != self._number + 1:
            raise RecordError(f"record of a login has number {count}; number {self._number + 1} is due")
        self._number = count
        if flags & socket.MSG_CTRUNC and not socks:
            raise RecordError("the shard has no room for another open file")
        if len(socks) != 1:
            raise RecordError(f"record of a login came with {len(socks)} sockets")
        if record[:1] != b"%c" % NO_RECORD:
            return LoginRecord.of(record)
        if self._take_stranger is None:
            raise RecordError("the shard takes no client that has not logged in")
        return int.from_bytes(record[1:], "big")

    def _answer(self, answer: bytes, sock: socket.socket | None, record: Handed) -> None:
        """Answer a packet, and then serve its client; without room for the answer, later."""
        try:
            self._channel.send(answer)
        except (BlockingIOError, InterruptedError):
            self._pending_answer = answer, sock, record
            self._loop.remove_reader(self._channel)
            self._loop.add_writer(self._channel, self._retry_answer)
            return
        except OSError:  # The other process is gone, and does not know that the client was taken.
            if sock is not None:
                sock.close()
            self._end()
            return
        if sock is not None:
            beginning = self._loop.create_task(self._serve(sock, record))
            self._beginning.add(beginning)
            beginning.add_done_callback(self._beginning.discard)

    def _retry_answer(self) -> None:
        """Send the answer for which there was no room, and read on."""
        pending, self._pending_answer = self._pending_answer, None
        self._loop.remove_writer(self._channel)
        self._loop.add_reader(self._channel, self._on_packets)
        if pending is not None:
            self._answer(*pending)

    async def _serve(self, sock: socket.socket, record: Handed) -> None:
        try:
            if not isinstance(record, int):
                await self._take(sock, record)
            elif self._take_stranger is not None:
                await self._take_stranger(sock, record)
        except (OSError, PenstockError):
            sock.close()
        except Exception:
            sock.close()
            log(INTERNAL_ERROR, "a client that was passed on could not be served", error=True)
