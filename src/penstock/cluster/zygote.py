"""Zygote: the process that forks the processes of shards, because its parent cannot.

Theory of operation. A fork copies one thread: locks that other threads hold stay locked in the copy, which also shares
the parent's epoll and its sessions with a database. So the parent forks the zygote before it has any of them, with all
modules of a shard imported. The zygote stays without threads and without an event loop. It forks a shard in
milliseconds, with the pages of the modules shared.

The zygote ends with its parent, and the shards end with the zygote (lifelines.py). The zygote reports the end of each
shard, and sends signals on request: it knows which process numbers are its children, and no other process does.
Signals of a terminal or of a service manager reach all processes of a group, so zygote and shards ignore them: the
parent decides.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, NamedTuple, NoReturn

from penstock.cluster.lifelines import HAS_SIGNAL, Lifeline
from penstock.cluster.packet_channel import ChannelEnded, Packet, PacketChannel, Row
from penstock.errors import StartError

ShardMain = Callable[[str, Row, list[socket.socket]], int]
"""Function that is the process of a shard: its name, its order and its sockets; it returns the status of the exit."""
OUTSIDE: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that reach a whole group of processes, and concern the parent alone."""
FORK: Final = "fork"
SIGNAL: Final = "signal"
FORKED: Final = "forked"
ENDED: Final = "ended"
REFUSED: Final = "refused"
FAILED: Final = 70
"""Status of a shard that has ended with an error of its own (EX_SOFTWARE)."""


class Event(NamedTuple):
    """Report of the zygote about a shard."""

    kind: str
    """FORKED, ENDED or REFUSED: the system has no process for it."""
    name: str
    pid: int = 0
    cause: str = ""
    """The end of a process or the refusal, as in "was killed by signal 9"."""


class Zygote:
    """The zygote, as its parent sees it."""

    def __init__(self, pid: int, channel: PacketChannel) -> None:
        self.pid = pid
        self._channel = channel

    @classmethod
    def begin(cls, main: ShardMain, by_signal: bool = HAS_SIGNAL) -> Zygote:
        """Fork the zygote. Raises StartError, also if this process has another thread already."""
        check_alone()
        channel, theirs = PacketChannel.pair()
        gc.collect()
        gc.freeze()  # The collector would write into the shared pages of modules.
        lifeline = Lifeline() if by_signal else None  # Otherwise the end of the channel ends the zygote.
        try:
            pid = os.fork()
        except OSError as error:
            raise StartError(f"cannot fork the zygote of shards: {error.strerror}") from None
        if pid:
            theirs.close()
            return cls(pid, channel)
        channel.close()
        _be_zygote(lifeline, PacketChannel(theirs), main, by_signal)

    def fileno(self) -> int:
        """Return the descriptor at which events arrive."""
        return self._channel.fileno()

    def fork(self, name: str, order: Row, sockets: Sequence[socket.socket]) -> bool:
        """Request a shard, which gets copies of the sockets; return False if it must be requested again later.

        Raises ChannelEnded.
        """
        return self._channel.send({FORK: name, "order": order}, sockets)

    def signal(self, name: str, number: int) -> bool:
        """Request a signal for a shard, if it lives; return False if that must be requested again later.

        Raises ChannelEnded.
        """
        return self._channel.send({SIGNAL: name, "number": number})

    def receive(self) -> list[Event]:
        """Return the events that have arrived. Raises ChannelEnded."""
        return [Event(**packet.message) for packet in self._channel.receive()]

    def stop(self) -> None:
        """Kill the zygote, even if it hangs, and with it the shards that are left; wait for its end."""
        self._channel.close()
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)


def check_alone() -> None:
    """Check that this process has one thread. Raises StartError."""
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        threads = threading.active_count()
    if threads > 1:
        raise StartError(f"cannot fork the zygote of shards: this process has {threads} threads, and a fork copies one")


def _be_zygote(lifeline: Lifeline | None, channel: PacketChannel, main: ShardMain, by_signal: bool) -> NoReturn:
    """Be the zygote until the parent ends. Does not return."""
    status = FAILED
    try:
        ignore_outside()
        if lifeline is not None:
            lifeline.hold()
        _Children(channel, main, by_signal).run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def ignore_outside() -> None:
    """Ignore the signals of terminals and service managers.

    A function does nothing, instead of SIG_IGN: programs that a shard starts would inherit that.
    """
    for each in OUTSIDE:
        signal.signal(each, _ignore)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


class _Children:
    """Shards of the zygote."""

    def __init__(self, channel: PacketChannel, main: ShardMain, by_signal: bool) -> None:
        self._channel = channel
        self._main = main
        self._lifeline = Lifeline(by_signal)
        self._names: dict[int, str] = {}
        """Names of living shards by process."""
        self._unsent: list[Event] = []
        """Events that the parent has not read yet: two a shard at most, as the parent requests no second one before."""
        self._wakeup = os.pipe()
        for end in self._wakeup:
            os.set_blocking(end, False)

    def run(self) -> None:
        """Serve the parent until it ends."""
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        while True:
            poll = select.poll()
            poll.register(self._channel.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))
            poll.register(self._wakeup[0], select.POLLIN)
            poll.poll()
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup[0], 4096)
            try:
                self._reap()
                for packet in self._channel.receive():
                    self._serve(packet)
                self._send()
            except ChannelEnded:
                return

    def _reap(self) -> None:
        while self._names:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._report(ENDED, self._names.pop(pid), pid, cause_of(status))

    def _serve(self, packet: Packet) -> None:
        message = packet.message
        try:
            if FORK in message:
                self._fork(message[FORK], message["order"], packet.sockets)
            else:
                for pid in [pid for pid, name in self._names.items() if name == message[SIGNAL]]:
                    os.kill(pid, message["number"])
        finally:
            for each in packet.sockets:
                each.close()

    def _fork(self, name: str, order: Row, sockets: list[socket.socket]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._report(REFUSED, name, 0, f"got no process of the system: {error.strerror}")
            return
        if pid:
            self._names[pid] = name
            self._report(FORKED, name, pid, "")
            return
        self._be_shard(name, order, sockets)

    def _be_shard(self, name: str, order: Row, sockets: list[socket.socket]) -> NoReturn:
        """Be a shard. Does not return."""
        status = FAILED
        try:
            self._lifeline.hold()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in self._wakeup:
                os.close(end)
            self._channel.close()
            status = self._main(name, order, sockets)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else FAILED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _report(self, kind: str, name: str, pid: int, cause: str) -> None:
        self._unsent.append(Event(kind, name, pid, cause))
        self._send()

    def _send(self) -> None:
        while self._unsent and self._channel.send(self._unsent[0]._asdict()):
            del self._unsent[0]


def cause_of(status: int) -> str:
    """Return how a process has ended, for people."""
    code = os.waitstatus_to_exitcode(status)
    return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
