"""A process that uses a store and does what it reads on its standard input, a word and a number a line.

`python -m tests.support.store_process DIRECTORY`; "commit 5" commits number 5, "loop 5" commits from number 5 on until
the process is killed, "numbers 0" tells which rows there are, "tidy 0" tidies up, "remove 0" removes a large file
beside the store. What is done is told in a line: "done 5"; what has failed with the class of the error and what it
says.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from penstock.errors import StoreError
from penstock.store.data_file import PLACED_BYTES
from penstock.store.records import QueuePosition, StoreTransaction
from penstock.store.sqlite import SqliteStore
from tests.support.open_stores import committing, some_note, some_row

LIVE = 5
"""How many commits a row stays."""


def size_of(number: int) -> int:
    """Return the octets of the row of a number where the data file has the data of some."""
    return 20_000 if number % 3 else PLACED_BYTES + number


def numbered(number: int, size: int = 20_000) -> StoreTransaction:
    """Return the commit of a number: its row comes, an older one goes, a note and a position change."""
    return committing(
        rows=[some_row(number, size)],
        rows_gone=[number - LIVE],
        settlements=[some_note(1_000_000 + number % 3)],
        positions=[QueuePosition(1, number, number)],
    )


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def obey(store: SqliteStore, word: str, number: int) -> None:
    if word == "loop":
        for each in count(number):
            obey(store, "commit", each)
    try:
        if word == "commit":
            store.commit(numbered(number, size_of(number)))
        elif word == "tidy":
            while store.reclaim_space():
                pass
        elif word == "remove":
            (store.path.parent / "large").unlink()
        else:
            tell(" ".join(str(row.number) for row in store.rows()))
            return
        tell(f"done {number}")
    except StoreError as error:
        tell(f"{type(error).__name__}: {error}")


def main(directory: Path) -> None:
    store = SqliteStore(directory)
    store.open()
    tell("open")
    for line in sys.stdin:
        word, number = line.split()
        obey(store, word, int(number))
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
