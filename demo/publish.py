"""One publisher: a process that sends its share of the flights with one AMQP client and tells how far it is.

It prints JSON lines: ``{"sent": ..., "confirmed": ...}`` a few times a second; at the end also the
processor time that it took.
"""

import argparse
import json
import sys
import time

from demo import data
from demo.clients import CLIENTS
from demo.errors import DemoError

TELL_SECONDS = 0.2


class Teller:
    """Prints the numbers, now and then."""

    def __init__(self) -> None:
        self._numbers = (0, 0)
        self._next = 0.0

    def __call__(self, sent: int, confirmed: int) -> None:
        self._numbers = (sent, confirmed)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + TELL_SECONDS
            self.tell()

    def tell(self, **more: object) -> None:
        sent, confirmed = self._numbers
        print(json.dumps({"sent": sent, "confirmed": confirmed, **more}), flush=True)


def main() -> None:
    """Publish one share and exit with 0 when all of it is with the broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=CLIENTS, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--flights", type=int, required=True, help="how many of all flights are published")
    parser.add_argument("--part", type=int, required=True)
    parser.add_argument("--parts", type=int, required=True)
    given = parser.parse_args()
    _columns, lines = data.read()
    mine = data.share(lines[: given.flights], given.part, given.parts)
    teller = Teller()
    begun = time.monotonic()
    CLIENTS[given.client](given.url, given.queue, mine, teller)
    teller.tell(seconds=time.monotonic() - begun, cpu_seconds=time.process_time())


if __name__ == "__main__":
    try:
        main()
    except (DemoError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
