"""Memory of one large message on its way from a producer to a slow consumer, over AMQP 0-9-1 and AMQP 1.0.

The message comes in frames of 64 KiB. It is in the queue when its last frame has come, and then goes to a consumer that
reads so many MiB a second. The broker has a store: its memory is what it takes beyond the message's stored form. Prints
the highest memory beside that of the empty broker, and draws memory and progress over time.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import penstock
from bench import processes
from bench.brokers import COMPILED, INTERPRETED, Broker, PenstockNode, start_penstock
from bench.paging import Link
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame as frame091
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import Composite, composite, decode_performative, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from penstock.wire.sasl import plain_response

OUTPUT = Path(__file__).resolve().parent / "output"
MIB = 1 << 20
GOAL_MIB = 16.0
"""Most memory of the broker beyond the stored form, in MiB."""
FRAME = 64 * 1024
"""Octets of a frame of the producer."""
SAMPLE_S = 0.05
REST_S = 1.0
"""Seconds between the last frame of the producer and the consumer."""
WINDOW = 16
"""Frames that the consumer takes at a time (AMQP 1.0)."""
QUEUE = "large"
CAPACITY = 8 << 30


@dataclass
class Progress:
    """Octets of the body so far, and their checksums."""

    sent: int = 0
    received: int = 0
    sent_crc: int = 0
    received_crc: int = 0

    def send(self, data: bytes) -> None:
        """Count what is sent."""
        self.sent += len(data)
        self.sent_crc = zlib.crc32(data, self.sent_crc)

    def receive(self, data: bytes) -> None:
        """Count what has come."""
        self.received += len(data)
        self.received_crc = zlib.crc32(data, self.received_crc)


@dataclass
class Sample:
    """One look at the broker: MiB of its memory, and of the body."""

    at: float
    resident: float
    sent: float
    received: float


@dataclass
class Run:
    """What was seen with one protocol; amounts in MiB."""

    protocol: str
    empty: float = 0.0
    stored: float = 0.0
    """Files of the store when all of the message had come."""
    samples: list[Sample] = field(default_factory=list)

    def highest(self) -> float:
        """Return the most memory beyond that of the empty broker."""
        return max(sample.resident for sample in self.samples) - self.empty


class Pace:
    """A consumer's pace: so many octets a second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._began = time.monotonic()

    def wait(self, octets: int) -> None:
        """Wait until so many octets may have been taken since the beginning."""
        ahead = octets / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)


def chunks(size: int, room: int) -> list[int]:
    """Return the sizes of the frames' payloads."""
    whole, rest = divmod(size, room)
    return [room] * whole + ([rest] if rest else [])


def chunk(number: int, size: int) -> bytes:
    """Return the octets of a frame, each with its number."""
    return number.to_bytes(8, "big").ljust(size, b".")[:size]


def declare(port: int) -> None:
    """Declare the queue."""
    with closing(Link(port)) as link:
        link.ask(spec.QUEUE_DECLARE, queue=QUEUE, durable=True, arguments={"capacity-bytes": CAPACITY})


def send091(port: int, size: int, progress: Progress) -> None:
    """Publish the message, and wait for its confirmation."""
    with closing(Link(port)) as link:
        link.ask(spec.CONFIRM_SELECT)
        link.send(
            method_frame(1, spec.BASIC_PUBLISH, exchange="", routing_key=QUEUE)
            + frame091(2, 1, encode_header(size, Properties(delivery_mode=2)))
        )
        for number, count in enumerate(chunks(size, FRAME - 8)):
            data = chunk(number, count)
            progress.send(data)
            link.send(frame091(3, 1, data))
        answer = link.read()
        if answer[7:11] != b"\x00\x3c\x00\x50":
            raise SystemExit("The broker has refused the message.")


def receive091(port: int, size: int, progress: Progress, pace: Pace) -> None:
    """Consume the message at a pace, and acknowledge it."""
    with closing(Link(port)) as link:
        link.ask(spec.BASIC_QOS, prefetch_count=1)
        link.ask(spec.BASIC_CONSUME, queue=QUEUE, consumer_tag="c")
        data = b""
        while progress.received < size:
            data += link.read()
            while len(data) >= 7:
                end = 7 + int.from_bytes(data[3:7], "big") + 1
                if len(data) < end:
                    break
                if data[0] == 3:
                    progress.receive(data[7 : end - 1])
                data = data[end:]
            pace.wait(progress.received)
        link.send(method_frame(1, spec.BASIC_ACK, delivery_tag=1))
        link.ask(spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)


class Peer10:
    """A blocking connection of AMQP 1.0 with one session; use it with `closing`."""

    def __init__(self, port: int, window: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(120.0)
        self._file = self._socket.makefile("rb", FRAME)
        init = composite(spec10.SASL_INIT, mechanism="PLAIN", initial_response=plain_response("guest", "guest"))
        self._socket.sendall(SASL_HEADER + frame(0, encode_composite(init), spec10.FRAME_SASL))
        self._file.read(8)
        while self.read()[0].spec.code != spec10.SASL_OUTCOME:
            pass
        self._socket.sendall(AMQP_HEADER)
        self._file.read(8)
        self.send(spec10.OPEN, container_id="bench", max_frame_size=FRAME)
        self.send(spec10.BEGIN, next_outgoing_id=0, incoming_window=window, outgoing_window=1 << 20)
        self.window = self.await_one(spec10.BEGIN).number("incoming_window")

    def close(self) -> None:
        """Close the socket."""
        self._file.close()
        self._socket.close()

    def send(self, code: int, payload: bytes = b"", **fields: Any) -> None:
        self._socket.sendall(frame(0, encode_composite(composite(code, **fields)) + payload))

    def read(self) -> tuple[Composite, bytes]:
        """Return the next performative that is none of a heartbeat, and its payload."""
        while True:
            head = self._file.read(8)
            if len(head) < 8:
                raise SystemExit("The broker has closed the connection.")
            data = self._file.read(int.from_bytes(head[:4], "big") - 8)
            if data:
                found, at = decode_performative(data)
                return found, data[at:]

    def await_one(self, code: int) -> Composite:
        """Read until a performative comes."""
        while True:
            found, _ = self.read()
            if found.spec.code == code:
                return found
            if found.spec.code in (spec10.DETACH, spec10.END, spec10.CLOSE):
                raise SystemExit(f"The broker has ended it: {found}")


def send10(port: int, size: int, progress: Progress) -> None:
    """Send the message in one delivery, and wait for its outcome."""
    with closing(Peer10(port, 1 << 20)) as peer:
        target = composite(spec10.TARGET, address=f"/queues/{QUEUE}")
        source = composite(spec10.SOURCE)
        peer.send(spec10.ATTACH, name="s", handle=0, role=False, source=source, target=target, initial_delivery_count=0)
        while not peer.await_one(spec10.FLOW).number("link_credit"):
            pass
        start = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0" + size.to_bytes(4, "big")
        for number, count in enumerate(chunks(size, FRAME - 64)):
            while number >= peer.window:
                flow = peer.await_one(spec10.FLOW)
                peer.window = flow.number("next_incoming_id") + flow.number("incoming_window")
            data = chunk(number, count)
            progress.send(data)
            payload = start + data if number == 0 else data
            more = progress.sent < size
            peer.send(spec10.TRANSFER, payload, handle=0, delivery_id=0, delivery_tag=b"1", message_format=0, more=more)
        outcome = peer.await_one(spec10.DISPOSITION).inner("state")
        if outcome is None or outcome.spec.code != spec10.ACCEPTED:
            raise SystemExit(f"The broker has refused the message: {outcome}")


def receive10(port: int, size: int, progress: Progress, pace: Pace) -> None:
    """Receive the message at a pace, a few frames at a time, and accept it."""
    with closing(Peer10(port, WINDOW)) as peer:
        source = composite(spec10.SOURCE, address=f"/queues/{QUEUE}")
        peer.send(spec10.ATTACH, name="r", handle=0, role=True, source=source, target=composite(spec10.TARGET))
        windows: dict[str, Any] = {"incoming_window": WINDOW, "next_outgoing_id": 0, "outgoing_window": 1 << 20}
        peer.send(spec10.FLOW, handle=0, delivery_count=0, link_credit=1, next_incoming_id=0, **windows)
        frames, head = 0, b""
        while progress.received < size:
            found, payload = peer.read()
            if found.spec.code != spec10.TRANSFER:
                continue
            frames += 1
            if progress.received == 0:
                head += payload
                begin = head.find(b"\x00\x53\x75\xb0")
                payload = head[begin + 8 :] if begin >= 0 else b""
            progress.receive(payload)
            pace.wait(progress.received)
            if frames % (WINDOW // 2) == 0:
                peer.send(spec10.FLOW, next_incoming_id=frames, **windows)
        accepted = composite(spec10.ACCEPTED)
        peer.send(spec10.DISPOSITION, role=True, first=0, settled=True, state=accepted)
        peer.send(spec10.CLOSE)
        peer.await_one(spec10.CLOSE)


class Watch:
    """Looks at the broker many times a second, until it is told to stop."""

    def __init__(self, broker: Broker, run: Run, progress: Progress) -> None:
        self._broker, self._run, self._progress = broker, run, progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(SAMPLE_S) and processes.is_alive(self._broker.process.pid):
            resident = processes.resident_mib([self._broker.process.pid])
            sent, received = self._progress.sent / MIB, self._progress.received / MIB
            self._run.samples.append(Sample(time.monotonic(), resident, sent, received))


Sender = Callable[[int, int, Progress], None]
Receiver = Callable[[int, int, Progress, Pace], None]
PROTOCOLS: dict[str, tuple[Sender, Receiver]] = {
    "AMQP 0-9-1": (send091, receive091),
    "AMQP 1.0": (send10, receive10),
}


def measure(form: str, folder: Path, protocol: str, size: int, rate: float) -> Run:
    """Send one message through a broker of its own, and receive it."""
    folder.mkdir()
    run, progress = Run(protocol), Progress()
    send, receive = PROTOCOLS[protocol]
    config = folder / "settings.toml"
    config.write_text(f"[broker]\nmessage-bytes-max = {size + MIB}\n")
    broker = start_penstock(form, folder, config)
    try:
        declare(broker.port)
        run.empty = processes.resident_mib([broker.process.pid])
        watch = Watch(broker, run, progress)
        send(broker.port, size, progress)
        run.stored = sum(path.stat().st_blocks * 512 for path in folder.rglob("messages.sqlite*")) / MIB
        time.sleep(REST_S)
        receive(broker.port, size, progress, Pace(rate))
        time.sleep(REST_S)
        watch.stop()
    finally:
        broker.stop()
    if progress.received_crc != progress.sent_crc:
        raise SystemExit(f"{protocol}: what was received is not what was sent.")
    return run


def draw(runs: list[Run], size: int, path: Path) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, rows = plt.subplots(
        2, len(runs), figsize=(11, 7), sharex="col", sharey="row", layout="constrained", squeeze=False
    )
    try:
        for (above, below), run in zip(zip(*rows, strict=True), runs, strict=True):
            times = [sample.at - run.samples[0].at for sample in run.samples]
            above.set_title(run.protocol, loc="left")
            above.plot(times, [sample.sent for sample in run.samples], color="#0072B2", label="sent")
            above.plot(times, [sample.received for sample in run.samples], color="#D55E00", label="received")
            above.legend(frameon=False)
            beyond = [sample.resident - run.empty for sample in run.samples]
            below.plot(times, beyond, color="#0072B2")
            below.axhline(GOAL_MIB, color="#D55E00", linestyle="--", label="goal")
            below.set_xlabel("seconds")
            below.legend(frameon=False)
        rows[0][0].set_ylabel("octets of the message, MiB")
        rows[1][0].set_ylabel("memory beyond the empty broker, MiB")
        rows[1][0].set_ylim(bottom=0)
        title = f"One message of {size // MIB:,} MiB in frames of 64 KiB, to a slow consumer"
        figure.suptitle(title, x=0.01, ha="left")
        figure.savefig(path, dpi=130)
    finally:
        plt.close(figure)


def main(words: list[str] | None = None) -> int:
    """Measure, print, draw; 1 if the broker takes more memory than promised."""
    parser = argparse.ArgumentParser(prog="bench.memory --large", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the message (default %(default)s)")
    parser.add_argument("--rate", type=float, default=50, help="MiB a second of the consumer (default %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT / "large.png", help="the picture (default %(default)s)")
    wanted = parser.parse_args(words)
    form = COMPILED if penstock.compiled() else INTERPRETED
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    runs = []
    with tempfile.TemporaryDirectory(prefix="penstock-large-") as folder:
        scratch = Path(folder)
        print(PenstockNode(form, scratch).title)
        for number, protocol in enumerate(PROTOCOLS):
            run = measure(form, scratch / str(number), protocol, wanted.mib * MIB, wanted.rate * MIB)
            runs.append(run)
            print(
                f"{protocol}: a message of {wanted.mib:,} MiB takes {run.highest():.1f} MiB of memory beyond the empty "
                f"broker's {run.empty:.1f} MiB (goal: under {GOAL_MIB:.0f}); its stored form {run.stored:,.0f} MiB"
            )
    draw(runs, wanted.mib * MIB, wanted.output)
    print(f"picture: {wanted.output}")
    return 0 if max(run.highest() for run in runs) < GOAL_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
