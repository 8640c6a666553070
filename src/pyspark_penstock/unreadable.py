"""Warnings of unreadable properties of messages, which are left out of their rows."""

from pyspark_penstock.blocks import Block
from pyspark_penstock.logs import LOG
from pyspark_penstock.parsing import Address

WARNED_MAX = 1_000
"""Most warnings that are remembered, so that none is logged twice; at the bound all are forgotten."""
_warned: set[tuple[Address, str, str]] = set()


def warn_of_unreadable(server: Address, queues: list[str], block: Block) -> None:
    """Warn of unreadable properties in a block of queues, once for each queue and property in a process."""
    for name, (count, first) in block.unreadable.items():
        key = (server, queues[0], name)
        if key in _warned:
            continue
        if len(_warned) >= WARNED_MAX:
            _warned.clear()
        _warned.add(key)
        what = "a header whose name is not UTF-8" if name == "header" else _article(name)
        where = f"queue '{queues[0]}'" if len(queues) == 1 else f"one of the queues '{queues[0]}' to '{queues[-1]}'"
        LOG.warning(
            "penstock: message %d of %s at %s has %s, which is left out; the others are read (%d of %d messages here)",
            first,
            where,
            server,
            what,
            count,
            block.rows,
        )


def _article(name: str) -> str:
    return "headers that cannot be read" if name == "headers" else f"a {name} that cannot be read or is not UTF-8"
