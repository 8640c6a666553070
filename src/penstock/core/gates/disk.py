"""The disk under the store as the broker knows it, and the gates that stand before it.

Theory of operation. Four conditions, each a gate: the store takes more room than it may (*quota*), what is stored for
a virtual host is more than it may be (*quota* of that host), its file system has too little *room* left, the store
cannot be written (*fault*). A closed one holds every persistent message on its way into a queue that is kept, and
nothing else; nobody's confirmation is withheld by it, for what is in waits for the disk in any case.

How much room is taken is measured, from time to time, by whoever writes the store (`measured`). What came since then
is known exactly: the messages that are not written yet. The marks are judged by the sum of both, so they hold also
between two looks: what comes into a virtual host is counted, and when as much has come as was left to the nearest mark
(a host's share of it), the sum is made anew. Far from all marks that is one comparison for a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import UNLIMITED
from penstock.flow.turns import Turns

if TYPE_CHECKING:
    from penstock.core.journal.journal import Journal
    from penstock.core.settings.limits import DiskLimits

QUOTA: Final = "quota"
FREE_SPACE: Final = "room"
STORE_FAILURE: Final = "store"
"""First words of the names of the gates; each is a kind of its own for those who describe gates."""
RESUME_PERCENT: Final = 110
"""Of the mark of free disk: as much must be free again for its gate to open. As far as the quota's 90 %."""


class DiskGate(GateOwner):
    """One of the gates before the disk: what is common to them."""

    def __init__(self, disk: Disk, name: str) -> None:
        self.disk = disk
        self.gate = Gate("disk", name, disk.turns.transitions)
        self.gate.owner = self

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`: nothing goes in while it is closed."""
        return self.gate.open

    def update_gate(self, now: float) -> None:
        """See `GateOwner.update_gate`."""
        if self.gate.open and self.gate.waiters:
            self.disk.turns.schedule(self.gate)
        self.disk.find_easy()

    def move(self, closed: bool, amount: i64, now: float) -> None:
        """Close or open it, at this amount of bytes."""
        if closed:
            self.gate.close(0, amount, now)
        else:
            self.gate.reopen(0, amount, now)

    def describe_refusal(self) -> str:
        """See `GateOwner.describe_refusal`."""
        return f"disk {self.gate.name}: {self.describe_cause(0.0)}"


class QuotaGate(DiskGate):
    """How many bytes may be stored: of the broker as its store takes room, of a virtual host as charges."""

    def __init__(self, disk: Disk, vhost: str) -> None:
        super().__init__(disk, f"{QUOTA} of vhost {vhost}" if vhost else QUOTA)
        self.vhost = vhost
        """Empty for the broker's."""
        self.overfull: i64 = UNLIMITED
        self.underfull: i64 = UNLIMITED
        self.bytes: i64 = 0
        """As it was judged last."""

    def judge(self, amount: i64, now: float) -> None:
        """Close above overfull, open at or below underfull."""
        self.bytes = amount
        if self.gate.open and amount > self.overfull:
            self.move(True, amount, now)
        elif not self.gate.open and amount <= self.underfull:
            self.move(False, amount, now)
        self.update_gate(now)

    def vhost_name(self) -> str | None:
        """See `GateOwner.vhost_name`."""
        return self.vhost or None

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.limits_increase`: who brings no more than he frees passes."""
        return bytes > 0

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`."""
        what = "stored" if self.vhost else "used"
        sign = ">" if self.bytes > self.overfull else "after more than"
        return (
            f"{int(self.bytes):,} bytes {what} {sign} disk-overfull {int(self.overfull):,} "
            f"(opens at {int(self.underfull):,})"
        )


class FreeSpaceGate(DiskGate):
    """How much of its file system must be left free, beside what the store itself needs."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk, FREE_SPACE)
        self.bytes: i64 = 0
        self.percent: float = 0.0
        """Of the file system, where that is how it was said."""
        self.free: i64 = UNLIMITED
        """As it was judged last."""
        self.total: i64 = 0
        """Of the file system; 0 until it is known."""

    def recheck_at(self) -> i64:
        """Return below how many free bytes it closes."""
        if self.percent == 0.0:
            return self.bytes
        return i64(int(self.total) * round(self.percent * 100) // 10_000)

    def resume(self) -> i64:
        """Return from how many free bytes on it opens: a tenth more, or half of what is beyond the mark at all."""
        mark = self.recheck_at()
        more = mark * (RESUME_PERCENT - 100) // 100
        beyond = (self.total - mark) // 2
        if self.total > 0 and beyond < more:
            more = beyond if beyond > 0 else 0
        return mark + more

    def judge(self, free: i64, now: float) -> None:
        """Close below the mark, open some way above it."""
        self.free = free
        if self.gate.open and free < self.recheck_at():
            self.move(True, free, now)
        elif not self.gate.open and free >= self.resume():
            self.move(False, free, now)
        self.update_gate(now)

    def full_percent(self) -> int:
        """Return the mark as others say it: the share of the file system that may be in use, in whole per cent."""
        return 100 - int(self.recheck_at() * 100 // self.total) if self.total > 0 else 100

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`."""
        free = "0" if self.free < 0 else f"{int(self.free):,}"
        sign = "<" if self.free < self.recheck_at() else "after less than"
        needed = f", besides {int(self.disk.needed):,} for the store itself" if self.disk.needed else ""
        mark = f"min-disk-free {int(self.recheck_at()):,} (opens at {int(self.resume()):,})"
        return f"{free} bytes free {sign} {mark}{needed}"


class StoreFailureGate(DiskGate):
    """Closed while the store cannot be written."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk, STORE_FAILURE)
        self.reason: str = ""

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`."""
        return self.reason


class VhostDiskUsage:
    """What is stored for the queues of one virtual host; each message that comes and goes is counted."""

    __slots__ = ("disk", "vhost", "bytes_in", "bytes_out", "recheck_at", "recheck_below", "all_open", "gates", "quota")

    def __init__(self, disk: Disk, vhost: str) -> None:
        self.disk = disk
        self.vhost = vhost
        self.bytes_in: i64 = 0
        """Charges of all messages that ever came."""
        self.bytes_out: i64 = 0
        """Of those that have gone again."""
        self.recheck_at: i64 = UNLIMITED
        """When `come` is above it, the gates are judged anew."""
        self.recheck_below: i64 = -1
        """When no more than this is stored, its quota is judged anew."""
        self.all_open: bool = True
        """Every gate is open, and nobody waits at one."""
        self.gates: list[Gate] = []
        """What a persistent message must pass on its way into a queue of this host that is kept."""
        self.quota: QuotaGate | None = None

    def bytes(self) -> i64:
        """Return the charges of the messages that are stored, or are about to be."""
        return self.bytes_in - self.bytes_out

    def add(self, charge: i64, now: float) -> None:
        """A message has come."""
        self.bytes_in += charge
        if self.bytes_in > self.recheck_at:
            self.disk.judge(now)

    def take(self, charge: i64, now: float) -> None:
        """A message has gone."""
        self.bytes_out += charge
        if self.bytes_in - self.bytes_out <= self.recheck_below:
            self.disk.judge(now)


class Disk:
    """All of one broker. Amounts are in bytes."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.journal: Journal | None = None
        """Knows what is not written yet; None where nothing is kept."""
        self.vhosts: dict[str, VhostDiskUsage] = {}
        """By virtual host."""
        self.used: i64 = 0
        """What the store takes, as measured last."""
        self.free: i64 = UNLIMITED
        """What its file system has left; UNLIMITED where nobody can say."""
        self.needed: i64 = 0
        """What of it the store itself will take."""
        self.fault = StoreFailureGate(self)
        self.quota: QuotaGate | None = None
        self.room: FreeSpaceGate | None = None
        self._limits: dict[str, DiskLimits] = {}
        """Quotas of virtual hosts, for those where there is one."""

    # Settings

    def limit(self, limits: DiskLimits, now: float) -> None:
        """Follow what is said for the broker."""
        self.quota = self._quota(self.quota, "", limits, now)
        room = self.room
        if room is None:
            room = FreeSpaceGate(self)
            self.room = room
        room.bytes = limits.free_bytes
        room.percent = limits.free_percent
        self._attach(now)

    def limit_vhost(self, vhost: str, limits: DiskLimits | None, now: float) -> None:
        """Follow what is said for a virtual host; None: nothing, for it is no more."""
        if limits is None or limits.overfull == UNLIMITED:
            self._limits.pop(vhost, None)
        else:
            self._limits[vhost] = limits
        stock = self.vhosts.get(vhost)
        if stock is not None:
            self._set_vhost_limit(stock, now)
            if limits is None:
                del self.vhosts[vhost]
            self._attach(now)

    def vhost_usage(self, vhost: str) -> VhostDiskUsage:
        """Return what is stored for a virtual host, made at first use."""
        stock = self.vhosts.get(vhost)
        if stock is None:
            stock = VhostDiskUsage(self, vhost)
            self.vhosts[vhost] = stock
            self._set_vhost_limit(stock, 0.0)
            self._attach(0.0)
        return stock

    def _set_vhost_limit(self, stock: VhostDiskUsage, now: float) -> None:
        stock.quota = self._quota(stock.quota, stock.vhost, self._limits.get(stock.vhost), now)

    def _quota(self, quota: QuotaGate | None, vhost: str, limits: DiskLimits | None, now: float) -> QuotaGate | None:
        if limits is None or limits.overfull == UNLIMITED:
            if quota is not None:
                self._lift(quota, now)
            return None
        if quota is None:
            quota = QuotaGate(self, vhost)
        quota.overfull = limits.overfull
        quota.underfull = limits.underfull
        return quota

    def _lift(self, gate: DiskGate, now: float) -> None:
        """A gate is taken off the roads: whoever waits at it looks at the rest of its road."""
        gate.gate.owner = None
        gate.gate.reopen(0, 0, now)
        self.turns.schedule(gate.gate)

    def _attach(self, now: float) -> None:
        shared: list[DiskGate] = [self.fault]
        if self.quota is not None:
            shared.append(self.quota)
        if self.room is not None:
            shared.append(self.room)
        for stock in self.vhosts.values():
            own = shared if stock.quota is None else [*shared, stock.quota]
            stock.gates = [each.gate for each in own]
        self.judge(now)

    # What the store's writer says

    def measured(self, used: i64, free: i64, total: i64, now: float, needed: i64 = 0) -> None:
        """The store has been looked at; `free` is UNLIMITED and `total` 0 where nobody can say.

        Of what is free the store needs so much itself, whether messages come or not.
        """
        self.used = used
        self.free = free
        self.needed = needed
        if self.room is not None:
            self.room.total = total
        self.judge(now)

    def fails(self, reason: str, now: float) -> None:
        """The store cannot be written, for this reason."""
        self.fault.reason = reason
        self.fault.move(True, 0, now)
        self.fault.update_gate(now)

    def works(self, now: float) -> None:
        """The store has been written."""
        if not self.fault.gate.open:
            self.fault.move(False, 0, now)
            self.fault.update_gate(now)

    def is_failing(self) -> bool:
        """Return whether the store cannot be written."""
        return not self.fault.gate.open

    def gates(self) -> list[Gate]:
        """Return all gates there are, the broker's first."""
        found: list[Gate] = [self.fault.gate]
        if self.quota is not None:
            found.append(self.quota.gate)
        if self.room is not None:
            found.append(self.room.gate)
        return found + [stock.quota.gate for stock in self.vhosts.values() if stock.quota is not None]

    def is_short(self) -> bool:
        """Return whether there is too little of the disk: a quota or the free room is used up."""
        for gate in self.gates():
            if not gate.open and gate is not self.fault.gate:
                return True
        return False

    def left(self) -> i64:
        """Return how much may come before a gate of the broker closes; UNLIMITED where none would."""
        unwritten: i64 = 0 if self.journal is None else self.journal.unwritten()
        left: i64 = UNLIMITED
        if self.quota is not None:
            left = self.quota.overfull - self.used - unwritten
        if self.room is not None and self.free != UNLIMITED:
            room = self.free - self.needed - unwritten - self.room.recheck_at()
            if room < left:
                left = room
        return left

    # Judging

    def judge(self, now: float) -> None:
        """Judge all gates by what is known now, and say when to do so again."""
        unwritten: i64 = 0 if self.journal is None else self.journal.unwritten()
        if self.quota is not None:
            self.quota.judge(self.used + unwritten, now)
        if self.room is not None and self.free != UNLIMITED:
            self.room.judge(self.free - self.needed - unwritten, now)
        left = self.left()
        hosts: i64 = len(self.vhosts)
        for stock in self.vhosts.values():
            share: i64 = UNLIMITED
            if left != UNLIMITED:
                share = left // hosts if left > 0 else 0
            quota = stock.quota
            stock.recheck_below = -1
            if quota is not None:
                quota.judge(stock.bytes(), now)
                if not quota.gate.open:
                    stock.recheck_below = quota.underfull
                if quota.overfull - stock.bytes() < share:
                    share = quota.overfull - stock.bytes()
            if share < 0:
                share = 0
            stock.recheck_at = UNLIMITED if share == UNLIMITED else stock.bytes_in + share
        self.find_easy()

    def find_easy(self) -> None:
        """Find out for each virtual host whether anybody has to look at the gates."""
        for stock in self.vhosts.values():
            stock.all_open = _are_easy(stock.gates)


def _are_easy(gates: list[Gate]) -> bool:
    for gate in gates:
        if not gate.open or gate.waiters:
            return False
    return True
