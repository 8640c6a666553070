"""The disk under the store: its use, and the gates before it.

Theory of operation. Four conditions, each a gate: the store exceeds its *quota*; the stored messages of a virtual host
exceed its *quota*; the file system has too little *free space*; the store cannot be *written*. A closed gate blocks
every persistent message on its way into a durable queue, and no other message. It withholds no confirms, because these
wait for the disk in any case.

The store writer measures disk use from time to time (`measured`). Later messages are counted exactly, because they are
not written yet. The limits apply to the sum of both, so they also hold between two measurements. Each virtual host
counts its new messages. When they reach its share of the distance to the nearest limit, the sum is checked again. Far
from all limits that is one comparison for each message.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.settings.limits import DiskLimits
from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import UNLIMITED
from penstock.flow.turns import Turns

DISK_KIND: Final = "disk"
"""Kind of all disk gates."""
QUOTA: Final = "quota"
FREE_SPACE: Final = "room"
STORE_FAILURE: Final = "store"
"""First words of the gates' names, one for each kind."""
RESUME_PERCENT: Final = 110
"""Percent of the limit of free space at which the gate opens again; symmetric to 90 % of a quota."""


class Backlog:
    """Messages still to be written; the journal implements it."""

    def unwritten(self) -> i64:
        """Return the bytes (charges) of unwritten messages."""
        raise NotImplementedError

    def on_failure(self) -> None:
        """Handle that the store cannot be written."""
        raise NotImplementedError


class DiskGate(GateOwner):
    """Base of the disk gates."""

    def __init__(self, disk: Disk, name: str) -> None:
        self.disk = disk
        self.gate = Gate(DISK_KIND, name, disk.turns.transitions)
        self.gate.owner = self

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`: no message passes while the gate is closed."""
        return self.gate.open

    @override
    def update_gate(self, now: float) -> None:
        if self.gate.open and self.gate.has_line():
            self.disk.turns.schedule(self.gate)
        self.disk.find_easy()

    def move(self, closed: bool, amount: i64, now: float) -> None:
        """Close or open the gate at this amount of bytes."""
        if closed:
            self.gate.close(0, amount, now)
        else:
            self.gate.reopen(0, amount, now)

    @override
    def describe_refusal(self) -> str:
        return f"disk {self.gate.name}: {self.describe_cause(0.0)}"


class QuotaGate(DiskGate):
    """Limit of stored bytes: the store's disk use for the broker, charges for a virtual host."""

    def __init__(self, disk: Disk, vhost: str) -> None:
        super().__init__(disk, f"{QUOTA} of vhost {vhost}" if vhost else QUOTA)
        self.vhost = vhost
        """Empty for the broker's quota."""
        self.overfull: i64 = UNLIMITED
        self.underfull: i64 = UNLIMITED
        self.bytes: i64 = 0
        """Bytes at the last check."""

    def judge(self, amount: i64, now: float) -> None:
        """Close above overfull, open at or below underfull."""
        self.bytes = amount
        if self.gate.open and amount > self.overfull:
            self.move(True, amount, now)
        elif not self.gate.open and amount <= self.underfull:
            self.move(False, amount, now)
        self.update_gate(now)

    @override
    def vhost_name(self) -> str | None:
        return self.vhost or None

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """Return whether the commit adds bytes; a commit that frees as many passes."""
        return bytes > 0

    @override
    def describe_cause(self, now: float) -> str:
        what = "stored" if self.vhost else "used"
        depth = f"{int(self.bytes):,} bytes {what}"
        stop, resume = f"{int(self.overfull):,}", f"{int(self.underfull):,}"
        if self.bytes > self.overfull:
            return f"{depth} > disk-overfull {stop} (opens at {resume})"
        return f"{depth}; it was above disk-overfull ({stop}) and opens at {resume}"


class FreeSpaceGate(DiskGate):
    """Minimum of free space on the file system, in addition to the store's own needs."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk, FREE_SPACE)
        self.bytes: i64 = 0
        self.percent: float = 0.0
        """The minimum in percent of the file system, if it was set as a percentage."""
        self.free: i64 = UNLIMITED
        """Free bytes at the last check."""
        self.total: i64 = 0
        """Size of the file system; 0 until it is known."""

    def recheck_at(self) -> i64:
        """Return the free bytes below which the gate closes."""
        if self.percent == 0.0:
            return self.bytes
        return i64(int(self.total) * round(self.percent * 100) // 10_000)

    def resume(self) -> i64:
        """Return the free bytes at which the gate opens: a tenth more, or half of the space beyond the minimum."""
        mark = self.recheck_at()
        more = mark * (RESUME_PERCENT - 100) // 100
        beyond = (self.total - mark) // 2
        if self.total > 0 and beyond < more:
            more = beyond if beyond > 0 else 0
        return mark + more

    def judge(self, free: i64, now: float) -> None:
        """Close below the minimum, open at `resume`."""
        self.free = free
        if self.gate.open and free < self.recheck_at():
            self.move(True, free, now)
        elif not self.gate.open and free >= self.resume():
            self.move(False, free, now)
        self.update_gate(now)

    def full_percent(self) -> int:
        """Return the limit as the used share of the file system, in whole percent: 0 if the minimum is all of it."""
        return max(100 - int(self.recheck_at() * 100 // self.total), 0) if self.total > 0 else 100

    @override
    def describe_cause(self, now: float) -> str:
        free = "0" if self.free < 0 else f"{int(self.free):,}"
        stop, resume = f"{int(self.recheck_at()):,}", f"{int(self.resume()):,}"
        needed = f", besides {int(self.disk.needed):,} for the store itself" if self.disk.needed else ""
        if self.free < self.recheck_at():
            return f"{free} bytes free < min-disk-free {stop} (opens at {resume}){needed}"
        return f"{free} bytes free; it was below min-disk-free ({stop}) and opens at {resume}{needed}"


class StoreFailureGate(DiskGate):
    """Closed while the store cannot be written."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk, STORE_FAILURE)
        self.reason: str = ""

    @override
    def describe_cause(self, now: float) -> str:
        return self.reason


class VhostDiskUsage:
    """Stored messages of one virtual host's queues, counted one by one."""

    __slots__ = ("disk", "vhost", "bytes_in", "bytes_out", "recheck_at", "recheck_below", "all_open", "gates", "quota")

    def __init__(self, disk: Disk, vhost: str) -> None:
        self.disk = disk
        self.vhost = vhost
        self.bytes_in: i64 = 0
        """Charges of all messages ever stored."""
        self.bytes_out: i64 = 0
        """Charges of all stored messages that were removed."""
        self.recheck_at: i64 = UNLIMITED
        """Value of `bytes_in` above which the gates are checked."""
        self.recheck_below: i64 = -1
        """Stored bytes at which the host's quota is checked."""
        self.all_open: bool = True
        """True while every gate is open and has no waiter."""
        self.gates: list[Gate] = []
        """The gates of a persistent message into a durable queue of this virtual host."""
        self.quota: QuotaGate | None = None

    def bytes(self) -> i64:
        """Return the charges of messages that are stored, or will be."""
        return self.bytes_in - self.bytes_out

    def add(self, charge: i64, now: float) -> None:
        """Count a new message."""
        self.bytes_in += charge
        if self.bytes_in > self.recheck_at:
            self.disk.judge(now)

    def take(self, charge: i64, now: float) -> None:
        """Count a removed message."""
        self.bytes_out += charge
        if self.bytes_in - self.bytes_out <= self.recheck_below:
            self.disk.judge(now)


class Disk:
    """The disk gates of one broker. Amounts are in bytes."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.backlog: Backlog | None = None
        """The unwritten messages; None without a store."""
        self.vhosts: dict[str, VhostDiskUsage] = {}
        """Disk usage by virtual host."""
        self.used: i64 = 0
        """Disk use of the store at the last measurement."""
        self.free: i64 = UNLIMITED
        """Free space of the store's file system; UNLIMITED if unknown."""
        self.needed: i64 = 0
        """Free space that the store itself will need."""
        self.fault = StoreFailureGate(self)
        self.quota: QuotaGate | None = None
        self.room: FreeSpaceGate | None = None
        self._limits: dict[str, DiskLimits] = {}
        """Quotas of virtual hosts with a quota."""

    # Settings

    def limit(self, limits: DiskLimits, now: float) -> None:
        """Apply the broker's disk limits."""
        self.quota = self._quota(self.quota, "", limits, now)
        room = self.room
        if room is None:
            room = FreeSpaceGate(self)
            self.room = room
        room.bytes = limits.free_bytes
        room.percent = limits.free_percent
        self._attach(now)

    def limit_vhost(self, vhost: str, limits: DiskLimits | None, now: float) -> None:
        """Apply a virtual host's quota; None if it was deleted."""
        if limits is None or limits.overfull == UNLIMITED:
            self._limits.pop(vhost, None)
        else:
            self._limits[vhost] = limits
        usage = self.vhosts.get(vhost)
        if usage is not None:
            self._set_vhost_limit(usage, now)
            if limits is None:
                del self.vhosts[vhost]
            self._attach(now)

    def vhost_usage(self, vhost: str) -> VhostDiskUsage:
        """Return the usage of a virtual host; creates it at first use."""
        usage = self.vhosts.get(vhost)
        if usage is None:
            usage = VhostDiskUsage(self, vhost)
            self.vhosts[vhost] = usage
            self._set_vhost_limit(usage, 0.0)
            self._attach(0.0)
        return usage

    def _set_vhost_limit(self, usage: VhostDiskUsage, now: float) -> None:
        usage.quota = self._quota(usage.quota, usage.vhost, self._limits.get(usage.vhost), now)

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
        """Remove a gate from the roads: waiters check the rest of their road."""
        gate.gate.owner = None
        gate.gate.reopen(0, 0, now)
        self.turns.schedule(gate.gate)

    def _attach(self, now: float) -> None:
        shared: list[DiskGate] = [self.fault]
        if self.quota is not None:
            shared.append(self.quota)
        if self.room is not None:
            shared.append(self.room)
        for usage in self.vhosts.values():
            own = shared if usage.quota is None else [*shared, usage.quota]
            usage.gates = [each.gate for each in own]
        self.judge(now)

    # Reports of the store writer

    def measured(self, used: i64, free: i64, total: i64, now: float, needed: i64 = 0) -> None:
        """Handle a measurement of the store; `free` is UNLIMITED and `total` 0 if unknown.

        `needed` bytes of the free space are for the store itself, independent of new messages.
        """
        self.used = used
        self.free = free
        self.needed = needed
        if self.room is not None:
            self.room.total = total
        self.judge(now)

    def fails(self, reason: str, now: float) -> None:
        """Handle a failed write, with its reason."""
        self.fault.reason = reason
        self.fault.move(True, 0, now)
        self.fault.update_gate(now)
        if self.backlog is not None:
            self.backlog.on_failure()

    def works(self, now: float) -> None:
        """Handle a successful write."""
        if not self.fault.gate.open:
            self.fault.move(False, 0, now)
            self.fault.update_gate(now)

    def is_failing(self) -> bool:
        """Return whether the store cannot be written."""
        return not self.fault.gate.open

    def gates(self) -> list[Gate]:
        """Return all gates, the broker's first."""
        gates: list[Gate] = [self.fault.gate]
        if self.quota is not None:
            gates.append(self.quota.gate)
        if self.room is not None:
            gates.append(self.room.gate)
        return gates + [usage.quota.gate for usage in self.vhosts.values() if usage.quota is not None]

    def closed_gate(self) -> Gate | None:
        """Return the first closed gate; None if all are open."""
        for gate in self.gates():
            if not gate.open:
                return gate
        return None

    def is_short(self) -> bool:
        """Return whether disk space is short: a quota or the free space is used up."""
        for gate in self.gates():
            if not gate.open and gate is not self.fault.gate:
                return True
        return False

    def left(self) -> i64:
        """Return the bytes left until a gate of the broker closes; UNLIMITED without a limit."""
        unwritten: i64 = 0 if self.backlog is None else self.backlog.unwritten()
        left: i64 = UNLIMITED
        if self.quota is not None:
            left = self.quota.overfull - self.used - unwritten
        if self.room is not None and self.free != UNLIMITED:
            room = self.free - self.needed - unwritten - self.room.recheck_at()
            if room < left:
                left = room
        return left

    # Checks

    def judge(self, now: float) -> None:
        """Check all gates with the present amounts, and set the amounts of the next check."""
        unwritten: i64 = 0 if self.backlog is None else self.backlog.unwritten()
        if self.quota is not None:
            self.quota.judge(self.used + unwritten, now)
        if self.room is not None and self.free != UNLIMITED:
            self.room.judge(self.free - self.needed - unwritten, now)
        left = self.left()
        hosts: i64 = len(self.vhosts)
        for usage in self.vhosts.values():
            share: i64 = UNLIMITED
            if left != UNLIMITED:
                share = left // hosts if left > 0 else 0
            quota = usage.quota
            usage.recheck_below = -1
            if quota is not None:
                quota.judge(usage.bytes(), now)
                if not quota.gate.open:
                    usage.recheck_below = quota.underfull
                if quota.overfull - usage.bytes() < share:
                    share = quota.overfull - usage.bytes()
            if share < 0:
                share = 0
            usage.recheck_at = UNLIMITED if share == UNLIMITED else usage.bytes_in + share
        self.find_easy()

    def find_easy(self) -> None:
        """Update for each virtual host whether all its gates are open."""
        for usage in self.vhosts.values():
            usage.all_open = _are_easy(usage.gates)


def _are_easy(gates: list[Gate]) -> bool:
    for gate in gates:
        if not gate.open or gate.in_line():
            return False
    return True
