"""Processor time of a client for a message of 100 B: Penstock's calls, and other libraries beside them.

    python -m bench.clients [CASE...] [--rounds 2] [--part 1] [--form compiled] [--form interpreted]

Each measurement is a process of its own at a compiled Penstock; the least of the rounds is shown. Messages are sent
with confirms and a window of 1,000 where the library has one, and received with a prefetch of 1,000 and
acknowledgements of about 100. Libraries that are not installed are left out. A part of a name names its cases: `pika`.
"""

import argparse
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from bench.brokers import COMPILED, INTERPRETED, ROOT, start_penstock

BODY: Final = b"x" * 100
WINDOW: Final = 1000
ACKS: Final = 100
QUEUE: Final = "clients"
PROTOCOLS: Final = ("amqp091", "amqp10")
NODE: Final = ROOT / "tests" / "clients" / "node"
LIMIT_S: Final = 120

Call = Callable[[Any, int], Awaitable[None]]


class Meter:
    """Processor time of this process, from `begin` to `end`, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def begin(self) -> None:
        """Begin to measure."""
        self.seconds = -_cpu()

    def end(self) -> None:
        """End, once."""
        if self.seconds < 0:
            self.seconds += _cpu()


METER: Final = Meter()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# Penstock with asyncio: a publisher or receiver, and the number of messages


async def send_many(publisher: Any, count: int) -> None:
    """One call for all messages."""
    await publisher.send_many([BODY] * count)


async def publish(publisher: Any, count: int) -> None:
    """A receipt for each message, awaited when a window of them is there."""
    held = []
    for _ in range(count):
        held.append(await publisher.publish(BODY))
        if len(held) == WINDOW:
            for receipt in held:
                await receipt
            held.clear()


async def tasks(publisher: Any, count: int) -> None:
    """1,000 tasks that send one message after the other."""

    async def one() -> None:
        for _ in range(count // WINDOW):
            await publisher.send(BODY)

    await asyncio.gather(*[one() for _ in range(WINDOW)])


async def gather(publisher: Any, count: int) -> None:
    """1,000 sends gathered, again and again."""
    for _ in range(count // WINDOW):
        await asyncio.gather(*[publisher.send(BODY) for _ in range(WINDOW)])


async def one_by_one(publisher: Any, count: int) -> None:
    """One send after the other."""
    for _ in range(count):
        await publisher.send(BODY)


async def receive(receiver: Any, count: int) -> None:
    """Iterate, and accept each message."""
    left = count
    async for message in receiver:
        await message.accept()
        left -= 1
        if not left:
            break


# Penstock with blocking calls


def blocking_send_many(publisher: Any, count: int) -> None:
    """One call for all messages."""
    publisher.send_many([BODY] * count)


def blocking_publish(publisher: Any, count: int) -> None:
    """A receipt for each message, in batches of a window."""
    held = []
    for _ in range(count // WINDOW):
        with publisher.batch():
            held = [publisher.publish(BODY) for _ in range(WINDOW)]
        for receipt in held:
            receipt.wait()


def blocking_one_by_one(publisher: Any, count: int) -> None:
    """One send after the other."""
    for _ in range(count):
        publisher.send(BODY)


def blocking_receive(receiver: Any, count: int) -> None:
    """Iterate, and accept each message."""
    left = count
    for message in receiver:
        message.accept()
        left -= 1
        if not left:
            break


ASYNC: Final[dict[str, tuple[Call, int]]] = {
    "send_many": (send_many, 400_000),
    "publish, receipts": (publish, 200_000),
    "send in 1,000 tasks": (tasks, 100_000),
    "gather of 1,000 send": (gather, 50_000),
    "send one by one": (one_by_one, 5_000),
    "receive": (receive, 200_000),
}
BLOCKING: Final[dict[str, tuple[Callable[[Any, int], None], int]]] = {
    "send_many": (blocking_send_many, 400_000),
    "publish, receipts": (blocking_publish, 200_000),
    "send one by one": (blocking_one_by_one, 10_000),
    "receive": (blocking_receive, 200_000),
}
"""Calls, with the number of messages that is measured."""


def run_async(url: str, call: str, count: int) -> None:
    """Measure a call of the client for asyncio."""
    import penstock

    async def main() -> None:
        async with penstock.connect(url) as connection:
            if call == "receive":
                async with connection.receiver(QUEUE) as receiver:
                    await measured(receiver)
            else:
                await measured(connection.publisher(QUEUE, window=WINDOW, durable=False))

    async def measured(user: Any) -> None:
        if call != "receive":
            await user.send(BODY)
        METER.begin()
        await ASYNC[call][0](user, count)
        METER.end()

    asyncio.run(main())


def run_blocking(url: str, call: str, count: int) -> None:
    """Measure a call of the client with blocking calls."""
    from penstock import sync

    with sync.connect(url) as connection:
        if call == "receive":
            user: Any = connection.receiver(QUEUE)
        else:
            user = connection.publisher(QUEUE, window=WINDOW, durable=False)
            user.send(BODY)
        METER.begin()
        BLOCKING[call][0](user, count)
        METER.end()


# Other libraries


def pika_send(url: str, count: int) -> None:
    """pika's SelectConnection: a window of messages, confirms by callback."""
    import pika  # type: ignore[import-untyped]

    channel: Any = None
    sent, done = 0, 0

    def on_ack(frame: Any) -> None:
        nonlocal done
        done = frame.method.delivery_tag if frame.method.multiple else done + 1
        pump()

    def pump() -> None:
        nonlocal sent
        while sent < count and sent - done < WINDOW:
            sent += 1
            channel.basic_publish("", QUEUE, BODY)
        if done >= count:
            METER.end()
            connection.ioloop.stop()

    def on_channel(opened: Any) -> None:
        nonlocal channel
        channel = opened
        channel.confirm_delivery(on_ack, callback=on_selected)

    def on_selected(frame: Any) -> None:
        METER.begin()
        pump()

    parameters = pika.URLParameters(url)
    connection = pika.SelectConnection(parameters, on_open_callback=lambda c: c.channel(on_open_callback=on_channel))
    connection.ioloop.start()


def pika_receive(url: str, count: int) -> None:
    """pika's SelectConnection: a callback, one acknowledgement for 100 messages."""
    import pika

    taken = 0

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal taken
        taken += 1
        if taken % ACKS == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
            if taken >= count:
                METER.end()
                connection.ioloop.stop()

    def on_channel(channel: Any) -> None:
        METER.begin()
        channel.basic_qos(prefetch_count=WINDOW)
        channel.basic_consume(QUEUE, on_message)

    parameters = pika.URLParameters(url)
    connection = pika.SelectConnection(parameters, on_open_callback=lambda c: c.channel(on_open_callback=on_channel))
    connection.ioloop.start()


def pika_one_by_one(url: str, count: int) -> None:
    """pika's BlockingConnection, whose window is one message."""
    import pika

    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.confirm_delivery()
    METER.begin()
    for _ in range(count):
        channel.basic_publish("", QUEUE, BODY)
    METER.end()


def aio_pika_send(url: str, count: int) -> None:
    """aio-pika: 1,000 publishes gathered, again and again; with a count below that one by one."""
    import aio_pika

    async def main() -> None:
        connection = await aio_pika.connect(url)
        exchange = (await connection.channel()).default_exchange
        METER.begin()
        for _ in range(count // WINDOW):
            await asyncio.gather(*[exchange.publish(aio_pika.Message(BODY), QUEUE) for _ in range(WINDOW)])
        METER.end()
        await connection.close()

    asyncio.run(main())


def aio_pika_one_by_one(url: str, count: int) -> None:
    """aio-pika: one publish after the other."""
    import aio_pika

    async def main() -> None:
        connection = await aio_pika.connect(url)
        exchange = (await connection.channel()).default_exchange
        METER.begin()
        for _ in range(count):
            await exchange.publish(aio_pika.Message(BODY), QUEUE)
        METER.end()
        await connection.close()

    asyncio.run(main())


def aio_pika_receive(url: str, count: int) -> None:
    """aio-pika's iterator, one acknowledgement for 100 messages."""
    import aio_pika

    async def main() -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel()
        await channel.set_qos(WINDOW)
        queue = await channel.get_queue(QUEUE)
        taken = 0
        METER.begin()
        async with queue.iterator() as messages:
            async for message in messages:
                taken += 1
                if taken % ACKS == 0:
                    await message.ack(multiple=True)
                    if taken >= count:
                        METER.end()
                        break
        await connection.close()

    asyncio.run(main())


def proton_send(url: str, count: int) -> None:
    """Proton's Container."""
    from proton import Message
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Sender(MessagingHandler):
        sent = done = 0

        def on_start(self, event: Any) -> None:
            self.sender = event.container.create_sender(_without_login(url))

        def on_sendable(self, event: Any) -> None:
            self.pump()

        def pump(self) -> None:
            if not METER.seconds:
                METER.begin()
            while self.sender.credit and self.sent < count and self.sent - self.done < WINDOW:
                self.sender.send(Message(body=BODY))
                self.sent += 1

        def on_accepted(self, event: Any) -> None:
            self.done += 1
            if self.done >= count:
                METER.end()
                event.connection.close()
            elif self.sent - self.done <= WINDOW // 2:
                self.pump()

    Container(Sender()).run()


def proton_receive(url: str, count: int) -> None:
    """Proton's Container, 100 messages accepted at a time."""
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Receiver(MessagingHandler):
        def __init__(self) -> None:
            super().__init__(prefetch=WINDOW, auto_accept=False)
            self.taken = 0
            self.batch: list[Any] = []

        def on_start(self, event: Any) -> None:
            event.container.create_receiver(_without_login(url))
            METER.begin()

        def on_message(self, event: Any) -> None:
            self.taken += 1
            self.batch.append(event.delivery)
            if len(self.batch) >= ACKS:
                for delivery in self.batch:
                    self.accept(delivery)
                self.batch.clear()
                if self.taken >= count:
                    METER.end()
                    event.connection.close()

    Container(Receiver()).run()


def proton_one_by_one(url: str, count: int) -> None:
    """Proton's BlockingConnection."""
    from proton import Message
    from proton.utils import BlockingConnection

    host = _without_login(url).rpartition("/")[0]
    login: dict[str, Any] = {"user": "guest", "password": "guest", "allowed_mechs": "PLAIN"}
    connection = BlockingConnection(host, allow_insecure_mechs=True, **login)
    sender = connection.create_sender(QUEUE)
    METER.begin()
    for _ in range(count):
        sender.send(Message(body=BODY))
    METER.end()
    connection.close()


def _without_login(url: str) -> str:
    return f"{url.rpartition('@')[2].rstrip('/')}/{QUEUE}"


RHEA: Final = """
const rhea = require('rhea'), [role, port, n] = [process.argv[1], +process.argv[2], +process.argv[3]];
const body = Buffer.alloc(100, 'x');
const login = { host: '127.0.0.1', port, username: 'guest', password: 'guest', reconnect: false };
const connection = rhea.create_container().connect(login);
let sent = 0, done = 0, start;
function end() { const used = process.cpuUsage(start); console.log((used.user + used.system) / n); process.exit(0); }
if (role === 'send') {
  const sender = connection.open_sender('clients');
  const pump = () => {
    start = start || process.cpuUsage();
    while (sender.sendable() && sent < n && sent - done < 1000) {
      sender.send({ body: rhea.message.data_section(body) });
      sent++;
    }
  };
  sender.on('sendable', pump);
  sender.on('accepted', () => { if (++done >= n) end(); else if (sent - done <= 500) pump(); });
} else {
  const receiver = connection.open_receiver({ source: 'clients', credit_window: 1000, autoaccept: false });
  let batch = [];
  start = process.cpuUsage();
  receiver.on('message', (context) => {
    batch.push(context.delivery);
    if (batch.length >= 100) { batch.forEach((delivery) => delivery.accept()); batch = []; }
    if (++done >= n) end();
  });
}
"""

OTHERS: Final[dict[str, tuple[Callable[[str, int], None], int]]] = {
    "pika: send": (pika_send, 30_000),
    "pika: one by one": (pika_one_by_one, 5_000),
    "pika: receive": (pika_receive, 30_000),
    "aio-pika: gather of 1,000": (aio_pika_send, 10_000),
    "aio-pika: one by one": (aio_pika_one_by_one, 3_000),
    "aio-pika: receive": (aio_pika_receive, 20_000),
    "Proton: send": (proton_send, 20_000),
    "Proton: one by one": (proton_one_by_one, 3_000),
    "Proton: receive": (proton_receive, 20_000),
}


def names() -> list[str]:
    """Return the names of all cases: `asyncio 0-9-1: receive`."""
    ours = [
        f"{shell} {protocol}: {call}"
        for shell, calls in (("asyncio", ASYNC), ("blocking", BLOCKING))
        for protocol in PROTOCOLS
        for call in calls
    ]
    return [*ours, *OTHERS, "rhea: send", "rhea: receive"]


def run_case(name: str, url: str, count: int) -> None:
    """Measure one case in this process, and print its microseconds for a message."""
    left, _, call = name.partition(": ")
    if name in OTHERS:
        OTHERS[name][0](url, count)
    else:
        shell, protocol = left.split()
        (run_async if shell == "asyncio" else run_blocking)(f"{url}?protocol={protocol}", call, count)
    print(METER.seconds / count * 1e6, flush=True)
    os._exit(0)  # Some of them have threads, or a connection that would have to be closed.


def count_of(name: str) -> int:
    """Return how many messages a case has."""
    if name in OTHERS:
        return OTHERS[name][1]
    if name.startswith("rhea"):
        return 50_000
    call = name.partition(": ")[2]
    return ASYNC[call][1] if name.startswith("asyncio") else BLOCKING[call][1]


def fill(url: str, count: int) -> None:
    """Put so many messages into the queue, and none else."""
    from penstock import sync

    with sync.connect(url) as connection:
        connection.declare_queue(QUEUE, capacity_bytes="1GiB")
        connection.purge_queue(QUEUE)
        connection.publisher(QUEUE, durable=False).send_many([BODY] * count)


def measure(name: str, form: str, url: str, part: int) -> float | None:
    """Return the microseconds of a case; None where it cannot be run."""
    count = max(WINDOW, count_of(name) // part // WINDOW * WINDOW)
    fill(url, count + 2 * WINDOW if name.endswith("receive") else 0)
    environment = dict(os.environ)
    if form == INTERPRETED:
        environment["PYTHONPATH"] = str(ROOT / "src")
    command, folder = [sys.executable, "-m", "bench.clients", "--run", name, url, str(count)], ROOT
    if name.startswith("rhea"):
        if not shutil.which("node") or not (NODE / "node_modules").exists():
            return None
        port = url.rpartition(":")[2].strip("/")
        command, folder = ["node", "-e", RHEA, name.partition(": ")[2], port, str(count)], NODE
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    try:
        return float(done.stdout.split()[-1])
    except (ValueError, IndexError):
        print(f"{name}: {(done.stderr.strip().splitlines() or ['it printed nothing'])[-1]}", file=sys.stderr)
        return None


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="parts of names (default: all)")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each (default: 2)")
    parser.add_argument("--part", type=int, default=1, help="divide the numbers of messages (default: 1)")
    parser.add_argument("--form", action="append", choices=(COMPILED, INTERPRETED), help="default: both")
    parser.add_argument("--run", nargs=3, metavar=("CASE", "URL", "COUNT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run_case(args.run[0], args.run[1], int(args.run[2]))
    wanted = [name for name in names() if not args.cases or any(part in name for part in args.cases)]
    forms = args.form or [COMPILED, INTERPRETED]
    with tempfile.TemporaryDirectory() as scratch:
        broker = start_penstock(COMPILED, Path(scratch))
        try:
            url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
            for name in wanted:
                is_ours = name.startswith(("asyncio", "blocking"))
                for form in forms if is_ours else forms[:1]:
                    part = args.part * (4 if is_ours and form == INTERPRETED else 1)
                    found = [measure(name, form, url, part) for _ in range(args.rounds)]
                    least = min((each for each in found if each is not None), default=None)
                    if least is not None:
                        print(f"{name:38}{form if is_ours else '':12}{least:9.3f} us", flush=True)
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
