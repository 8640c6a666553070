"""A broker's part in a store's life, in a process of its own: it waits for the lease, then commits without end.

`python -m tests.support.store_writer_process URL`. Each commit writes one row, deletes the one ten before and moves a
position; what it says on standard output is one event a line.
"""

from __future__ import annotations

import random
import sys
import time

from penstock.errors import StoreError, StoreLost
from penstock.store.postgres import postgres_store
from penstock.store.records import MessageRow, QueuePosition, StoreTransaction

KEPT = 10
LOST = 3
"""Exit code of a writer that was told that another has taken over."""


def step(number: int, epoch: int) -> StoreTransaction:
    """Return the commit with this number; now and then a large one, of which the end is long behind the beginning."""
    commit = StoreTransaction()
    chance = random.Random(number)
    size = 300_000 if chance.random() < 0.1 else chance.randrange(5000)
    commit.rows = [MessageRow(number, b"%d/" % epoch + chance.randbytes(size), 0, epoch)]
    commit.rows_gone = [number - KEPT]
    commit.positions = [QueuePosition(1, number, epoch)]
    return commit


def say(event: str, *words: object) -> None:
    sys.stdout.write(" ".join(map(str, (event, *words))) + "\n")  # One piece: half a line is never heard.
    sys.stdout.flush()


def main(url: str) -> int:
    store = postgres_store(url)
    while True:
        try:
            if store.try_open(0.2):
                break
            say("waiting", store.holder)
        except StoreError as error:
            say("unopened", error)
    epoch = store._lease.epoch
    number = max((row.number for row in store.rows()), default=0)
    say("open", epoch, number)
    while True:
        number += 1
        commit = step(number, epoch)
        while True:
            try:
                store.commit(commit)
                break
            except StoreLost as error:
                say("lost", error)
                return LOST
            except StoreError as error:
                say("failed", error)
                time.sleep(0.02)  # as a broker waits until it tries again
        say("committed", number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
