"""Hold budget: the limit of a connection's held publishes. Hold room: its part for credit without room in a queue.

A link without a fixed target cannot reserve room in the queues of its messages. Its credit is reserved here: a message
that does not fit into its queues is held, and is never refused for lack of hold room. The links of a connection share
the room. They wait for it at a gate that is always open, because they lack only room.

Idle credit is set aside: it reserves no room, neither in a queue nor here. A trial (one message of credit for a
possibly idle link) reserves no room either. Credit that is set aside has a bound of its own, because all its messages
may arrive at once. This bound and the hold room together limit the held messages on credit.
"""

from __future__ import annotations

from math import exp
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.credit_window import GRANT_MAX, SHARE
from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import UNLIMITED
from penstock.flow.reserved_room import RECALL_S, Party, RoomHolder
from penstock.flow.timers import NEVER
from penstock.flow.turns import Turns

HELD_ON_CREDIT_BYTES: Final = 16 * 1024 * 1024
"""Most bytes (charges) of a connection's messages on credit that are held: the sender was allowed to send them.

Granted credit has its room in queues, or in the smaller hold budget. Only messages larger than expected need more. The
value is the bound of a client's messages in flight after channel.flow (decision 18).
"""
HOLD_ROOM_BYTES: Final = 1_048_576
"""Most bytes (charges) of a connection's hold budget that are reserved for credit."""
ASIDE_BYTES: Final = HELD_ON_CREDIT_BYTES - HOLD_ROOM_BYTES
"""Most bytes (charges) of a connection's credit that is set aside."""


PLACE_BYTES: Final = 32
"""Bytes of a hold budget for each further queue of a held publish: each queue is checked, and counts a refusal."""


def held_bytes(charge: i64, queues: i64) -> i64:
    """Return the bytes of a hold budget that a publish of this charge to so many queues takes."""
    return charge + PLACE_BYTES * (queues - 1) if queues > 1 else charge


class HoldBudget:
    """The limit of held publishes of one connection, shared by its producers."""

    __slots__ = ("bytes", "messages", "bound", "uncommitted", "reserved", "room", "_drained", "_drained_at", "_half_s")

    def __init__(self, bound: i64) -> None:
        self.bytes: i64 = 0
        self.messages: i64 = 0
        self.bound: i64 = bound
        """Bytes (see `held_bytes`) at which the next publish is refused; a single message may always be held."""
        self.uncommitted: i64 = 0
        """Bytes of publishes in open units of work, included above: these wait for their client, not for room."""
        self.reserved: i64 = 0
        """Bytes reserved for publishes on credit."""
        self.room: HoldRoom | None = None
        """The owner of the reserved part; None for connections without credit for publishes."""
        self._drained: float = 0.0
        """Bytes of publishes without confirms that have passed, weighted by age: half a deadline ago counts a third."""
        self._drained_at: float = -NEVER
        """Time at which the last of these publishes passed (monotonic seconds)."""
        self._half_s: float = 0.0
        """Half the hold deadline of that publish, in seconds."""

    def count_drained(self, bytes: i64, hold_deadline_s: float, now: float) -> None:
        """Count a publish without a confirm that has passed; without a hold deadline nothing is measured."""
        if hold_deadline_s == NEVER or hold_deadline_s <= 0.0:
            return
        if now > self._drained_at:
            self._drained = self._left(now)
            self._drained_at = now
            self._half_s = hold_deadline_s / 2
        self._drained += float(bytes)

    def share(self, now: float) -> i64:
        """Return how many bytes drain within half a hold deadline, at the recent rate; UNLIMITED without a measurement.

        There is no measurement if no publish without a confirm has passed for a whole deadline.
        """
        if self._drained_at + 2 * self._half_s < now:
            return UNLIMITED
        left: i64 = int(self._left(now))
        return left

    def _left(self, now: float) -> float:
        """Return the present weight of the bytes that have passed; it decays with half a deadline."""
        if self._half_s <= 0.0:
            return 0.0
        return self._drained * exp((self._drained_at - now) / self._half_s)

    def fits(self, charge: i64) -> bool:
        """Return whether one more publish may be held."""
        return self.messages == 0 or self.bytes + self.reserved + charge <= self.bound

    def fits_on_credit(self, charge: i64) -> bool:
        """Return whether one more publish on credit may be held."""
        most = self.bound if self.bound > HELD_ON_CREDIT_BYTES else HELD_ON_CREDIT_BYTES
        return self.messages == 0 or self.bytes + charge <= most

    def take(self, charge: i64, messages: i64) -> None:
        """Count held publishes."""
        self.messages += messages
        self.bytes += charge

    def release(self, charge: i64, messages: i64) -> None:
        """Count publishes that are not held any more."""
        self.messages -= messages
        self.bytes -= charge
        if self.room is not None:
            self.room.on_released()


class HoldRoom(GateOwner):
    """The hold room of one connection."""

    def __init__(self, turns: Turns, name: str, budget: HoldBudget, bound: i64 = HOLD_ROOM_BYTES) -> None:
        self.turns = turns
        self.budget = budget
        self.bound: i64 = bound
        """Bytes of held publishes and reserved room together."""
        self.aside_bytes: i64 = 0
        """Bytes of credit that is set aside."""
        self.gate = Gate("hold", name, turns.transitions)
        self.gate.owner = self
        self.first_bytes: i64 = 0
        """Bytes of first grants of links that have not sent anything yet. Their reservations may move here."""
        self.holders: dict[HoldShare, RoomHolder] = {}
        """The links that may have room here, for their shares and for recalls of idle credit."""
        self._recalled_at: float = -NEVER
        """Time of the last recall: monotonic seconds."""
        budget.room = self

    def free(self) -> i64:
        """Return the bytes that are neither held nor reserved; 0 if there are none.

        Open units of work do not count: otherwise a large transaction could not finish, because its client would get no
        credit. A publish beyond the bound of the budget is refused, which rolls the transaction back.
        """
        budget = self.budget
        left = self._most() - (budget.bytes - budget.uncommitted) - budget.reserved
        return left if left > 0 else 0

    def free_to_move(self) -> i64:
        """Return the bytes for credit that moves here from elsewhere; a part is left for links without a road."""
        left = self.free() - self._most() // SHARE
        return left if left > 0 else 0

    def _most(self) -> i64:
        """Return the bytes that held publishes and reserved room may have together now."""
        return self.bound if self.bound < self.budget.bound else self.budget.bound

    @override
    def recall(self, parties: list[Party], now: float) -> float:
        if now >= self._recalled_at + RECALL_S:
            self._recalled_at = now
            for share, holder in self.holders.items():
                if share.messages > 0:
                    holder.recall(False, now)
        return self._recalled_at + RECALL_S

    def is_unused(self) -> bool:
        """Return whether nothing is held or reserved: one message always has room then, however large."""
        return self.budget.bytes == self.budget.uncommitted and self.budget.reserved == 0

    def reserve(self, bytes: i64) -> None:
        """Reserve bytes, or (negative) release them."""
        self.budget.reserved += bytes
        if bytes < 0:
            self.on_released()

    def on_released(self) -> None:
        """Let a waiting link check again, because there is more room."""
        if self.gate.requests:
            self.turns.schedule(self.gate)

    @override
    def update_gate(self, now: float) -> None:
        self.on_released()

    @override
    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        return charge <= self.free() or self.is_unused()

    @override
    def describe_cause(self, now: float) -> str:
        budget = self.budget
        return (
            f"{int(budget.bytes - budget.uncommitted):,} bytes are held and {int(budget.reserved):,} are reserved "
            f"for credit, of {int(self._most()):,} "
            "that the connection may have held"
        )

    @override
    def describe_refusal(self) -> str:
        return f"the hold room of connection {self.gate.name}: {self.describe_cause(0.0)}"


class HoldShare:
    """The hold room of one link's credit."""

    __slots__ = ("room", "messages", "charge", "aside", "aside_bytes", "first_bytes")

    def __init__(self, room: HoldRoom) -> None:
        self.room = room
        self.messages: i64 = 0
        """Messages of credit that have room here."""
        self.charge: i64 = 1
        """Bytes reserved for each message."""
        self.aside: i64 = 0
        self.aside_bytes: i64 = 0
        """Messages of credit that are set aside, and their bytes."""
        self.first_bytes: i64 = 0
        """Bytes of the first grant, until its first message."""

    def first_grant(self, wanted: i64, charge: i64) -> i64:
        """Return how many messages a first grant may have: as many as all first grants together have room for, or
        one.
        """
        room = self.room
        share = (room.free_to_move() - room.first_bytes) // charge // SHARE
        if share < 1:
            return 1
        return wanted if wanted < share else share

    def count_first(self, bytes: i64) -> None:
        """Count the first grant; 0 after the first message."""
        self.room.first_bytes += bytes - self.first_bytes
        self.first_bytes = bytes

    def grant(self, wanted: i64) -> i64:
        """Reserve room for up to `wanted` more messages: a quarter of the free room, at least one.

        Returns the number granted, 0 if none has room.
        """
        if wanted > GRANT_MAX:
            wanted = GRANT_MAX
        free = self._free()
        share = (free + SHARE - 1) // SHARE
        granted = wanted if wanted < share else share
        self._change(granted)
        return granted

    def take(self, messages: i64, charge: i64) -> i64:
        """Reserve room for up to `messages` messages that had room elsewhere; returns the number that has room."""
        self.recharge(charge)
        free = self.room.free_to_move() // self.charge
        taken = messages if messages < free else free
        self._change(taken)
        return taken

    def count(self) -> i64:
        """Return the messages of credit with room here, or set aside."""
        return self.messages + self.aside

    def bytes(self) -> i64:
        """Return the bytes (charges) of these messages."""
        return self.messages * self.charge + self.aside_bytes

    def set_aside(self, messages: i64, charge: i64) -> i64:
        """Set aside up to so many messages of credit; returns the number that has room."""
        room = self.room
        free = (ASIDE_BYTES - room.aside_bytes) // charge
        taken = messages if messages < free else free
        if taken <= 0:
            return 0
        self.aside += taken
        self.aside_bytes += taken * charge
        room.aside_bytes += taken * charge
        return taken

    def set_own_aside(self, remaining: i64) -> i64:
        """Set aside the messages with room here beyond `remaining`, if the budget allows; returns their number."""
        taken = self.set_aside(self.messages - remaining, self.charge) if self.messages > remaining else 0
        self._change(-taken)
        return taken

    def release(self, messages: i64) -> None:
        """Release so many messages of credit that were used, or will not arrive: first the messages set aside."""
        if self.aside > 0:
            released = messages if messages < self.aside else self.aside
            size = self.aside_bytes * released // self.aside
            self.aside -= released
            self.aside_bytes -= size
            self.room.aside_bytes -= size
            messages -= released
        self._change(-messages)

    def recharge(self, charge: i64) -> None:
        """Reserve another charge for each message; a larger charge only if there is room."""
        more = (charge - self.charge) * self.messages
        if more <= 0 or more <= self.room.free():
            self.charge = charge
            if more != 0:
                self.room.reserve(more)

    def _free(self) -> i64:
        """Return for how many messages there is room: at least one while nothing is held or reserved."""
        free = self.room.free() // self.charge
        return 1 if free == 0 and self.room.is_unused() else free

    def _change(self, messages: i64) -> None:
        if messages != 0:
            self.messages += messages
            self.room.reserve(messages * self.charge)


def hold_room_of(turns: Turns, budget: HoldBudget, name: str) -> HoldRoom:
    """Return the hold room of a connection; the first link with credit creates the room."""
    room = budget.room
    return HoldRoom(turns, name, budget) if room is None else room
