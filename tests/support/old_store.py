"""Write the store that tests/server/test_upgrade.py upgrades, with the broker of an older version of Penstock.

Run it in a checkout of that version, where `python -m penstock` is the older one::

    PYTHONPATH=OLD/src python tests/support/old_store.py tests/server/stores/schema-3.tar.gz --kill
    PYTHONPATH=OLD/src python tests/support/old_store.py - --store URL  # then pg_dump --format=custom

It makes durable queues, an exchange with a binding, settings by pattern, a virtual host, messages, pages and settled
messages. Then it stops the broker in order, or kills it, so that the store has to be recovered, too.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pika

ORDERS, SETTLED = 40, (0, 1, 2, 5, 9)
"""Messages that are published to the queue `orders`, and those of them that are acknowledged."""
PAGED, PAGED_OCTETS = 30, 1024
"""Messages in the queue `deep`, most of them on the disk, and their octets."""
HEADERS = {"number": 7, "text": "größer", "nested": {"yes": True}}


def fill(url: str) -> None:
    """Make durable objects, and messages that are confirmed."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("events", "topic", durable=True)
    channel.queue_declare("orders", durable=True, arguments={"capacity-bytes": 1 << 20, "hold-deadline": 10})
    channel.queue_bind("orders", "events", "orders.#")
    channel.queue_declare("deep", durable=True, arguments={"overflow": "page", "capacity-bytes": 4096})
    channel.queue_declare("ranked", durable=True, arguments={"x-max-priority": 5})
    for number in range(ORDERS):
        properties = pika.BasicProperties(delivery_mode=2, headers=HEADERS, message_id=str(number))
        channel.basic_publish("events", f"orders.{number % 3}", b"order %d" % number, properties, mandatory=True)
    for number in range(PAGED):
        properties = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "deep", b"%d" % number + b"." * PAGED_OCTETS, properties, mandatory=True)
    for priority in (1, 5, 3):
        properties = pika.BasicProperties(delivery_mode=2, priority=priority)
        channel.basic_publish("", "ranked", b"priority %d" % priority, properties, mandatory=True)
    tags = [channel.basic_get("orders")[0].delivery_tag for _ in range(max(SETTLED) + 1)]
    for number in SETTLED:
        channel.basic_ack(tags[number])
    # A synced answer behind the acknowledgements: they are in the store when it comes.
    channel.queue_declare("last", durable=True)
    channel.basic_publish("", "last", b"last", pika.BasicProperties(delivery_mode=2), mandatory=True)
    connection.close()


def run_broker(where: list[str], kill: bool) -> None:
    """Run the older broker with a new store, and fill it."""
    words = [sys.executable, "-m", "penstock"]
    serve = [*words, "serve", *where, "--listen", "127.0.0.1:0", "--flow-log", "off"]
    broker = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    address = next(word for word in broker.stdout.readline().split() if "amqp://" in word)
    url = address.replace("amqp://", "amqp://guest:guest@") + "/"
    fill(url)
    for command in (["set", "queue", "orders.#", "hold-deadline=60"], ["declare", "vhost", "eu"]):
        subprocess.run([*words, *command, "--url", url], check=True)
    (broker.kill if kill else broker.terminate)()
    broker.wait()


def main() -> None:
    """Write the archive of a data directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--store", help="write into this database instead of an archive")
    parser.add_argument("--kill", action="store_true", help="end the broker by SIGKILL")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        where = ["--store", arguments.store] if arguments.store else ["--data", str(data)]
        run_broker(where, arguments.kill)
        if arguments.store:
            return
        with tarfile.open(arguments.archive, "w:gz") as archive:
            for path in sorted(data.iterdir()):
                if path.name.startswith("messages.") and not path.name.endswith((".lock", "-shm")):
                    content = path.read_bytes()
                    entry = tarfile.TarInfo(path.name)
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
                    print(f"{path.name}: {len(content):,} octets")


if __name__ == "__main__":
    main()
