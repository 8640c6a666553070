"""Memory of other data than messages in queues: arguments of declarations, and contents that arrive in pieces.

Theory of operation. Every declaration and subscription may have arguments. As Python objects these take up to forty
times their bytes on the wire, so they are charged by an upper estimate of their memory (`memory_of`). The charge is
added with the object, stored with it, and subtracted when the object is deleted.

Three limits: the bytes of one table (406), the memory of all tables, and the memory of the tables of one virtual host
(506). The memory counts in the node's memory gate, as messages do.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

from mypy_extensions import i64

from penstock.errors import PreconditionFailed, ResourceError
from penstock.flow.shared_limit import LimitMember, SharedLimit
from penstock.settings.start import ARGUMENTS_BYTES, TABLE_OCTETS_MAX

SHARE_OF_MEMORY: Final = 8
"""Largest part (an eighth) of the node's memory for all arguments: arguments alone never close its gate."""
SHARE_OF_VHOST: Final = 2
"""Largest part (a half) of that for one virtual host, so that other hosts can still declare."""

DICT_BYTES: Final = 248
ENTRY_BYTES: Final = 48
LIST_BYTES: Final = 88
ITEM_BYTES: Final = 12
TEXT_BYTES: Final = 80
SCALAR_BYTES: Final = 44
TIME_BYTES: Final = 128
"""Sizes of objects (CPython 3.11 to 3.13, 64 bits), rounded up; tests/core/gates/test_metadata_memory.py checks."""
COMPARED: Final = 2
"""Copies of the arguments that a binding of a headers exchange stores: one more, for comparison."""


class OtherMemory(LimitMember):
    """Amounts in the node's memory other than messages in queues."""

    def __init__(self) -> None:
        self.bytes: i64 = 0

    def reclaim_slack(self) -> None:
        """Do nothing: this member never has slack."""

    def count(self, pool: SharedLimit | None, by: i64, now: float) -> None:
        """Add bytes to the count; a negative number subtracts."""
        self.bytes += by
        if pool is not None:
            pool.count(self, 0, by, False, now)


class NodeMemory:
    """The memory of the node, in which declarations count. `Gates` implements it."""

    memory: SharedLimit | None
    """The limit of all queues' memory; None for no limit."""

    def count_other_memory(self, by: i64) -> None:
        """Count memory used by other data than messages in queues; a negative number is freed."""
        raise NotImplementedError


class Metadata:
    """Charges of the arguments of all queues, exchanges, bindings and consumers."""

    def __init__(self, node: NodeMemory) -> None:
        self._node = node
        self.table_octets_max: int = TABLE_OCTETS_MAX
        self.bytes_max: int = ARGUMENTS_BYTES
        self.bytes: i64 = 0
        """The sum of all charges."""
        self.vhosts: dict[str, int] = {}
        """Sums by virtual host; only those above 0."""

    def admit(self, subject: str, vhost: str, arguments: dict[str, object], times: int = 1, more: int = 0) -> None:
        """Check that an object with these arguments, stored `times` times, may be created.

        `more` is the memory of data derived from them, such as a parsed selector. Raises PreconditionFailed (406) for
        too many bytes, ResourceError (506) if a sum would exceed its limit.
        """
        if not arguments and more == 0:
            return
        octets = octets_of(arguments)
        if octets > self.table_octets_max:
            raise PreconditionFailed(
                f"the arguments of {subject} have {octets:,} bytes, more than the limit of {self.table_octets_max:,} "
                "(arguments-octets-max)"
            )
        charge = times * memory_of(arguments) + more
        most = self.most()
        if self.bytes + charge > most:
            raise ResourceError(
                f"the arguments of all declarations take {int(self.bytes):,} bytes of at most {most:,} "
                f"(arguments-bytes-max); {subject} was not created"
            )
        held = self.vhosts.get(vhost, 0)
        if held + charge > most // SHARE_OF_VHOST:
            raise ResourceError(
                f"the arguments of vhost '{vhost}' hold {held:,} bytes of at most {most // SHARE_OF_VHOST:,}, its "
                f"share of arguments-bytes-max; {subject} was not created"
            )

    def most(self) -> int:
        """Return the memory limit of all arguments."""
        memory = self._node.memory
        if memory is None:
            return self.bytes_max
        return min(self.bytes_max, int(memory.thresholds.capacity.bytes) // SHARE_OF_MEMORY)

    def add(self, vhost: str, arguments: dict[str, object], times: int = 1, more: int = 0) -> int:
        """Add the arguments of a created object; `times` and `more` as in `admit`. Returns the charge."""
        charge = (times * memory_of(arguments) if arguments else 0) + more
        self._count(vhost, charge)
        return charge

    def add_consumer(self, vhost: str, arguments: dict[str, object], tag: str, more: int = 0) -> int:
        """Add the arguments and the tag of a consumer, and its parsed selector; returns the charge."""
        charge = memory_of(tag) + (memory_of(arguments) if arguments else 0) + more
        self._count(vhost, charge)
        return charge

    def give_back(self, vhost: str, charge: int) -> None:
        """Subtract the charge of a deleted object."""
        self._count(vhost, -charge)

    def _count(self, vhost: str, by: int) -> None:
        if by == 0:
            return
        self.bytes += by
        held = self.vhosts.get(vhost, 0) + by
        if held:
            self.vhosts[vhost] = held
        else:
            del self.vhosts[vhost]
        self._node.count_other_memory(by)


def memory_of(value: object) -> int:
    """Return an upper estimate of the bytes of a field-table value in memory."""
    if isinstance(value, str):
        return TEXT_BYTES + len(value) * (1 if value.isascii() else 4)
    if isinstance(value, dict):
        return DICT_BYTES + sum([ENTRY_BYTES + memory_of(name) + memory_of(each) for name, each in value.items()])
    if isinstance(value, list):
        return LIST_BYTES + sum([ITEM_BYTES + memory_of(each) for each in value])
    if isinstance(value, bytes):
        return TEXT_BYTES + len(value)
    return TIME_BYTES if isinstance(value, datetime | Decimal) else SCALAR_BYTES


def octets_of(table: dict[str, object]) -> int:
    """Return the bytes of a field table on the wire, without its size (AMQP 0-9-1 section 4.2.5.5)."""
    return sum([1 + len(name.encode()) + 1 + _octets(value) for name, value in table.items()])


def _octets(value: object) -> int:
    if isinstance(value, str):
        return 4 + len(value.encode(errors="surrogatepass"))
    if isinstance(value, bytes):
        return 4 + len(value)
    if isinstance(value, dict):
        return 4 + octets_of(value)
    if isinstance(value, list):
        return 4 + sum([1 + _octets(each) for each in value])
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return 4 if -(1 << 31) <= value < 1 << 31 else 8
    return 5 if isinstance(value, Decimal) else 8
