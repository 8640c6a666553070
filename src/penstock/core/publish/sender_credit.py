"""Credit of one sender: the messages that it may still send, each with room set aside for it.

Theory of operation. A link wants credit if it is new, if its credit is used up, or if its sender has announced more
messages. It then gets some at once, or waits at the first gate that stops it: in the one line of the broker, by bytes,
beside the held publishes of others. A grant is a part of the free room, up to a window. Its room is reserved in the
queues of the road (`Reservation`), or in the hold room of the connection if the road is unknown (`HoldShare`). So
always `credit + used and not settled == reserved + revoked + hold room + set aside`, in messages.

A message on credit takes free room on the fast path, if there is some. Its credit is settled later, for all messages of
an input in one step. Without free room it takes its own room, and enters although a gate is closed. A message without
own room takes the ordinary path: it is held if it does not fit, and its link gets no more credit until it has entered.

The gates of the user, the connection and the producer stop grants, and rates count granted messages. So they do not
stop the messages again, unless a sender has saved up credit: then its messages wait at the rate (decision 83). Credit
is never lowered: a sender may have used it already.

*Exact* credit ends at the stop thresholds, and its messages are confirmed as soon as they are in their queues
(`Producer.prompt`). So its sender waits only for credit. There are no trials: after a drain, credit is granted when the
sender has messages.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.disk import DISK_KIND
from penstock.core.publish import admission
from penstock.core.publish.admission import OWN_GATES_PREPAID, RATES_PREPAID, credit_gates, is_stored, passes_disk
from penstock.core.publish.credit_line import CreditedLink
from penstock.core.publish.credit_state import CREDIT_STATES, CreditState, after_drain, after_use, is_idle
from penstock.core.publish.credit_window import SHARE, TRIAL_OCTETS, CreditWindow
from penstock.core.publish.hold_room import HoldShare, hold_room_of
from penstock.core.publish.idle_credit import IdleCredit
from penstock.core.publish.producer import Producer, publish_at_once
from penstock.core.publish.reservation import Reservation
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import UNRESOLVED, Route, RouteTarget
from penstock.core.routing.topology import Topology
from penstock.errors import BrokerError
from penstock.flow.gate import NO_GATES, Gate, retry_after_s
from penstock.flow.level import OVERHEAD

QUEUES_MAX: Final = 16
"""Most queues of a road in which room is reserved; beyond, the credit of a link has hold room."""
NO_QUEUES: Final[list[Queue]] = []
PARTS_MAX: Final = 16
"""Most parts of the free room, if many senders wait: smaller grants are fairer, and cost more flow frames."""


class SenderCredit(CreditedLink):
    """The credit of one link, whose messages one producer publishes.

    `route` is the road of all messages; None: each message has its own. `name` is the name of the connection. The first
    credit is granted in the next turn. `exact`: see the module's docstring; such a link has a route.
    """

    def __init__(
        self,
        producer: Producer,
        vhost: Topology,
        route: Route | None,
        window: CreditWindow,
        name: str,
        exact: bool = False,
    ) -> None:
        broker = producer.broker
        hold = HoldShare(hold_room_of(broker.turns, producer.hold_budget, name))
        super().__init__(broker.credits, vhost, window, hold, producer.origin, broker.now)
        self.producer = producer
        self.broker = broker
        self.route = route
        self.available: i64 = 0
        """Further messages that the sender has ready, as it reported; 0 if it reported none."""
        self.exact = producer.prompt = exact
        self.reservation = Reservation(NO_QUEUES, window.charge, NO_GATES, self.party, exact)
        self.reservation.owner = self
        hold.room.holders[hold] = self.reservation
        self._largest: i64 = 0
        """Largest charge since the last settlement."""
        self._target: RouteTarget = UNRESOLVED
        """The target in whose amounts room is reserved."""
        self._is_short: bool = False
        """True if there was no room to reserve for the size of the last messages."""
        self._is_active: bool = False
        """True if the link used credit since the last grant."""
        self._reported: Gate | None = None
        """The gate that was last announced to the sender since its last grant; None without one."""
        self._was_active: bool = False
        """`_is_active` before the last grant: such a sender soon uses the new credit too."""
        self.passes_held: bool = False
        """True if messages to other targets overtake held publishes of the producer, so that credit continues."""
        self.idle = IdleCredit(self, self.reservation, broker.timers)
        """Room that is revoked if others wait for it."""
        producer.credit = self
        producer.set_gates(producer.own)
        self.schedule_review()

    # Use

    def publish(self, route: Route, content: bytes, charge: i64) -> bool:
        """Publish a message on credit; returns False, without effect, if the sender has none."""
        left = self.credit - 1
        if left < 0:
            return False
        self.credit = left
        if charge > self._largest:
            self._largest = charge
        if not self.is_listed:
            self.schedule_review()
        if not publish_at_once(self.producer, route, content, charge):
            self._publish_slow_path(route, content, charge)
        return True

    def spend(self, charge: i64) -> bool:
        """Use one message of credit for a message that does not use its room: in a transaction, or refused.

        Returns False, without effect, if the sender has no credit.
        """
        left = self.credit - 1
        if left < 0:
            return False
        self.credit = left
        if charge > self._largest:
            self._largest = charge
        if self.hold.count() > 0:
            self.settle(self.broker.now)  # A transaction counts the message in the same hold budget.
        self.schedule_review()
        return True

    def prepaid_for(self, route: Route) -> int:
        """Return the gates that counted a message on this route when its credit was granted; see `HeldPublish`."""
        return RATES_PREPAID if route.target is self._target else OWN_GATES_PREPAID

    def publish_beyond(self, route: Route, content: bytes, charge: i64) -> bool:
        """Publish a message that was sent without credit, as a protocol without credit does; the link must then be
        closed.

        Returns False, without effect, if the connection may hold no more.
        """
        if not self.producer.hold_budget.fits(charge):
            return False
        self.producer.publish_slowly(route, content, charge)
        return True

    def _publish_slow_path(self, route: Route, content: bytes, charge: i64) -> None:
        now = self.broker.now
        producer = self.producer
        self._settle(self._unsettled() - 1, now)
        stored = is_stored(route)
        past_disk = not stored or self.window.stores() or passes_disk(route, charge)
        producer.has_stored = stored
        own = self.route
        if own is not None and (own.epoch != self.vhost.epoch or not self._follows(own)):
            self._follow(now)
        past = past_disk and not admission.any_stops_granted(self._own_gates(), now)
        if route.target is self._target and self.reservation.messages > 0 and past and producer.is_ordinary():
            error = producer.listener.publish_error()
            if error is not None:
                producer.close(error)
                return
            self._count(1, now)
            if self.reservation.use(charge, now):
                producer.accept(route, route.queues, content, charge, None, producer.confirming, RATES_PREPAID)
                return
        self._settle(self._unsettled(), now)
        producer.publish_slowly(route, content, charge, self.prepaid_for(route))

    def leave_road(self) -> None:
        """Stop reserving room on the road: messages are published in transactions, and a commit may need that room.

        Credit uses hold room afterwards.
        """
        now = self.broker.now
        self.settle(now)
        self.route = None
        self._target = UNRESOLVED
        self.reservation.follow(NO_QUEUES, NO_GATES, now)
        self.schedule_review()

    # Reports of the sender

    def on_flow(self, available: i64) -> None:
        """Handle that the sender has so many messages, including messages that it has credit for; 0 if it reports
        none.
        """
        more = available - self.credit
        self.available = more if more > 0 else 0
        self.schedule_review()

    def give_back(self, messages: i64) -> None:
        """Take back credit that the sender returns: it was drained, or a delivery was aborted."""
        if messages > self.credit:
            messages = self.credit
        if messages > 0:
            now = self.broker.now
            self.settle(now)
            self.credit -= messages
            self.counts.drained += messages
            self._release(messages, now)
        if self.credit == 0:
            self.state = after_drain(self.state)
            self.hold.count_first(0)
        self.schedule_review()

    # Turns

    @override
    def review(self) -> None:
        self.is_listed = False
        if self.state is CreditState.CLOSED:
            return
        now = self.broker.now
        self.settle(now)
        self._follow(now)
        self._recharge(now)
        if not self.has_demand() or (self.credit == 0 and self._grant_beside_queues(now)):
            self._leave_line(now)
        elif self.gate is None:
            self._ask(now)
        else:
            self._change_gate(self.gate, now)
            self.report_blocked()

    def has_demand(self) -> bool:
        """Return whether the link should be granted more: its sender is active, half of its window is used, nothing is
        held.

        Credit without room is used first.
        """
        if self.state is CreditState.CLOSED or (self._is_short and self.credit > 0):
            return False
        if not self.producer.is_ordinary() and not self.passes_held:
            return False
        if self.exact and is_idle(self.state) and self.available == 0:
            return False
        return (self.credit == 0 or self.available > 0 or self._is_active) and self._window_lacks() > 0

    def _window_lacks(self) -> i64:
        """Return how many messages the window lacks, which is smaller if a rate limits it; 0 while half is left."""
        return self.window.wanted(self.credit, admission.credit_limit(self._own_gates(), self.window.charge))

    def _ask(self, now: float) -> None:
        """Grant the credit that needs no wait at once. Otherwise wait, unless the sender has enough credit left."""
        obstacle = self._stopping_gate(now, False)
        if obstacle is None and self.broker.turns.pending:
            obstacle = self._last_gate()
        if obstacle is None:
            self.take_turn(now)
            obstacle = self.next_gate()
        elif self.credit > 0 and self.available == 0:
            return
        if obstacle is not None:
            self.weight = self.producer.weight
            self.broker.turns.wait(self, obstacle, now)

    def _change_gate(self, gate: Gate, now: float) -> None:
        """Wait at another gate if this gate is not on the road any more, or is closed in a way that does not end by
        itself.
        """
        obstacle = self._stopping_gate(now, True)
        if obstacle is gate:
            return
        if obstacle is None and gate.open:
            self.broker.turns.schedule(gate)
            return
        gate.leave(self)
        gate.review(now)
        if obstacle is None:
            obstacle = self._last_gate()
        if obstacle is None:
            self.take_turn(now)
            obstacle = self.next_gate()
        if obstacle is not None:
            self.broker.turns.wait(self, obstacle, now)

    @override
    def waits_at(self, gate: Gate, now: float) -> None:
        self.line.begin_wait(self)
        self.reservation.close_full(now)
        if gate.kind == DISK_KIND:
            self.schedule_review()  # A trial may continue.

    @override
    def on_road_changed(self, left: set[object], now: float) -> i64:
        self.schedule_review()
        return 1

    @override
    def obstacle(self, finishing: Gate | None = None) -> Gate | None:
        return self._stopping_gate(self.broker.now, True)

    @override
    def take_turn(self, now: float) -> i64:
        self.line.end_wait(self)
        self.settle(now)
        charge = self._recharge(now)
        wanted = self._wanted(charge, now)
        for gate in self._own_gates():
            wanted = wanted if gate.owner is None else gate.owner.grantable(wanted, charge, now)
        if self._goes_anywhere():
            granted = self.hold.grant(wanted)
        elif is_idle(self.state) or (self.credit == 0 and self._is_beyond_share()):
            granted = self._grant_one(charge, now) if wanted > 0 else 0
        else:
            if self.window.is_unproven():
                left = self.reservation.share_left()
                wanted = wanted if wanted < left else left
            granted = self.reservation.grant(wanted, now, True, self._parts())
        if granted > 0:
            if self.counts.granted == 0 and not self._goes_anywhere():
                self.hold.count_first(granted * charge)
            self._add_credit(granted, charge, now)
        self.producer.update_blocked(now)
        return granted * charge

    @override
    def next_gate(self) -> Gate | None:
        if (self.available == 0 and not self._goes_on()) or not self.has_demand() or self._is_beyond_share():
            return None  # The link asks again when its credit is used up.
        gate = self._stopping_gate(self.broker.now, True)
        return self._last_gate() if gate is None else gate

    def _goes_on(self) -> bool:
        """Return whether exact credit is granted further in this turn: the room below stop is granted in small
        parts.
        """
        if self.exact and not is_idle(self.state) and not self.window.is_unproven():
            self._is_active = self._stopping_gate(self.broker.now, True) is None
            return self._is_active
        return False

    @override
    def will_return_soon(self) -> bool:
        return (self._is_active or self._was_active) and self.credit > 0 and self.state is not CreditState.CLOSED

    @override
    def release(self, gate: Gate, now: float) -> i64:
        return 0

    @override
    def recall(self, beyond_share: bool, now: float) -> None:
        self.idle.recall(beyond_share, now)

    def close(self) -> None:
        """Release everything, because the link has ended. Repeated calls have no effect."""
        if self.state is CreditState.CLOSED:
            return
        now = self.broker.now
        self.state = CREDIT_STATES.move(self.state, CreditState.CLOSED)
        self.broker.turns.forget(self, now)
        self._leave_line(now)
        self.line.end_wait(self)  # The gate of a deleted queue has dismissed the link already.
        self.credit = self.available = 0
        self.reservation.give_back(now)
        self.hold.release(self.hold.count())
        self.hold.count_first(0)
        self.hold.room.holders.pop(self.hold, None)
        self.reservation.owner = None
        self.idle.end()

    # Descriptions

    def blocked_by(self) -> Gate | None:
        """Return the gate that keeps credit or a held publish from its sender; None while it may send."""
        if self.producer.outbox:
            return self.producer.gate
        return self.gate if self.credit == 0 else None

    def blocked_since(self) -> float | None:
        """Return the time since which that gate blocks the sender (monotonic seconds); None while it may send, or has a
        turn soon.
        """
        gate = self.blocked_by()
        return None if gate is None or id(gate) not in self.producer.gates else self.producer.entry(gate).since

    def retry_after_s(self) -> float:
        """Return the seconds after which a blocked sender may try again."""
        gate = self.blocked_by()
        return 0.0 if gate is None else retry_after_s(gate, self.broker.now)

    @override
    def announce(self) -> None:
        self.producer.listener.on_credit()

    @override
    def report_blocked(self) -> None:
        gate = self.gate
        if gate is None or self.credit > 0:
            return
        self.producer.mark_blocked(gate)
        if gate is not self._reported:  # The gate may have withheld outcomes earlier, and so blocked the producer.
            self._reported = gate
            self.notify()

    # The road

    def _own_gates(self) -> list[Gate]:
        """Return the gates that count grants: of the producer and of the address."""
        return [*self.producer.own, *self.reservation.gates] if self.reservation.gates else self.producer.own

    def _goes_anywhere(self) -> bool:
        """Return whether the road is unknown, or too wide, so that room is in the hold room."""
        target = self._target
        return target is UNRESOLVED or target.by_headers or len(target.queues) > QUEUES_MAX

    def _last_gate(self) -> Gate | None:
        """Return the gate to wait at for a turn if no gate stops the link; None if it need not wait."""
        if self._goes_anywhere():
            return self.hold.room.gate
        for queue in self.reservation.queues:
            if not queue.deleted:
                return queue.gate
        return None

    def _recharge(self, now: float) -> i64:
        """Adapt the size of reservations to the last messages.

        Returns the bytes that each message of credit reserves.
        """
        charge = self.window.charge
        if self._goes_anywhere():
            self.hold.recharge(charge)
            self._is_short = self.hold.charge < charge
            return self.hold.charge
        charge = self.reservation.most_charge(charge)
        self._is_short = not self.reservation.recharge(charge, now)
        return self.reservation.charge

    def _wanted(self, charge: i64, now: float) -> i64:
        """Return the most messages that the link's turn may grant."""
        wanted = self._window_lacks() if self.has_demand() else 0
        if wanted > 0 and is_idle(self.state):
            return 1
        if wanted == 0 or self.counts.granted > 0:
            return wanted
        if not self.window.is_size_known:
            trial: i64 = 1
            if not self._goes_anywhere():
                trial = self.reservation.trial(wanted, TRIAL_OCTETS + OVERHEAD, self._parts(), now)
            wanted = wanted if wanted < trial else trial
        return wanted if self._goes_anywhere() else self.hold.first_grant(wanted, charge)

    def _parts(self) -> i64:
        """Return the number of parts of the free room: the more senders wait, the smaller each grant."""
        parts: i64 = SHARE
        for queue in self.reservation.queues:
            for gate in queue.gates:
                parts = max(parts, gate.in_line())
        return parts if parts < PARTS_MAX else PARTS_MAX

    def _is_beyond_share(self) -> bool:
        """Return whether no message has arrived yet, and the connection has its share of the room in a queue."""
        return not self._goes_anywhere() and self.window.is_unproven() and self.reservation.share_left() == 0

    def _grant_one(self, charge: i64, now: float) -> i64:
        """Add one message of credit: on trial, or with room if credit is exact; returns the number granted."""
        return self.reservation.grant(1, now, True) if self.exact else self._try_one(charge)

    def _try_one(self, charge: i64) -> i64:
        """Add a message of credit that takes no room from others; returns 1. The message is held if it does not fit."""
        if self.hold.set_aside(1, charge) == 0:
            self.reservation.revoked += 1
        return 1

    def _grant_beside_queues(self, now: float) -> bool:
        """Grant credit that has no room in a queue, although a message may enter.

        The grant is a trial of one message, which is set aside, if the sender's last credit was idle or no message has
        arrived: on a link without a fixed target, and before a closed disk gate, which admits transient messages. While
        a shared limit is closed, the grant is hold room for the guaranteed share of an empty queue. Returns False,
        without a grant, in all other cases.
        """
        charge = self.window.charge
        for gate in self._own_gates():
            if not gate.open or gate.in_line() or not gate.admits(charge, 1, now):
                return False
        is_unknown = self._goes_anywhere() and self.counts.granted == 0 and not self.window.is_size_known
        is_trial = not self.exact and (is_idle(self.state) or is_unknown)
        most: i64 = 0
        for queue in self.reservation.queues:
            for gate in credit_gates(queue, charge, self.window.stores()):
                if not gate.open:
                    if gate.kind == DISK_KIND and self.window.is_unseen() and not self.exact:
                        is_trial = True
                        continue
                    share = (gate.guaranteed_bytes - queue.bytes) // charge
                    if share <= 0:
                        return False
                    most = share if most == 0 or share < most else most
        granted: i64 = 0
        if is_trial:
            granted = self._try_one(charge)
        elif most > 0 and not self.hold.room.gate.in_line():
            wanted = self._window_lacks() if self.counts.granted > 0 or self.window.is_size_known else 1
            self.hold.recharge(charge)
            granted = self.hold.grant(wanted if wanted < most else most)
        if granted > 0:
            self._add_credit(granted, charge, now)
        return granted > 0

    def _add_credit(self, granted: i64, charge: i64, now: float) -> None:
        """Add granted messages, which rates count now."""
        for gate in self._own_gates():
            if gate.owner is not None:
                gate.owner.granted(granted, charge, now)
        self._was_active = self._is_active
        self._is_active = False
        self._reported = None
        self.window.on_granted()
        self.state = after_drain(self.state)
        self.credit += granted
        self.counts.granted += granted
        self.available = self.available - granted if self.available > granted else 0
        self.used_at = now
        self.notify()

    def _stopping_gate(self, now: float, in_turn: bool) -> Gate | None:
        """Return the first gate that stops a grant: closed, or without room.

        Also a gate with other waiters, unless the grant is `in_turn`.
        """
        self._follow(now)
        charge = self._recharge(now)
        for gate in self._own_gates():
            if not gate.open or (gate.in_line() and not in_turn) or not gate.admits(charge, 1, now):
                return gate
        if self._goes_anywhere():
            gate = self.hold.room.gate
            return gate if (gate.in_line() and not in_turn) or not gate.admits(charge, 1, now) else None
        for queue in self.reservation.queues:
            for gate in credit_gates(queue, charge, self.window.stores()):
                if not gate.open or ((gate.in_line() or gate.returning) and not in_turn):
                    return gate
        return self.reservation.full_gate(now)

    def _follow(self, now: float) -> None:
        """Move the reserved room if the topology has changed; into the hold room if the new road has no room."""
        route = self.route
        if route is not None:
            self._follow_route(route, now)
        if self.reservation.revoked > 0:
            self.reservation.revoked -= self.hold.take(self.reservation.revoked, self.window.charge)

    def _follow_route(self, route: Route, now: float) -> None:
        if route.epoch != self.vhost.epoch:
            try:
                self.vhost.refresh_route(route)
            except BrokerError:
                return  # The next message meets the same error, and ends its link.
        if not self._follows(route):
            target = self._target = route.target
            queues = NO_QUEUES if self._goes_anywhere() else target.queues
            self.reservation.follow(queues, route.gates, now)
        else:
            self.reservation.refresh(now)

    def _follows(self, route: Route) -> bool:
        """Return whether room is reserved on the present road of the route, with its gates."""
        return route.target is self._target and route.gates is self.reservation.gates

    # Settlement

    @override
    def settle(self, now: float) -> None:
        self._settle(self._unsettled(), now)

    def _unsettled(self) -> i64:
        """Return the used messages that still have room."""
        return self.reservation.messages + self.reservation.revoked + self.hold.count() - self.credit

    def _settle(self, messages: i64, now: float) -> None:
        if messages > 0:
            self._count(messages, now)
            self._release(messages, now)

    def _count(self, messages: i64, now: float) -> None:
        """Count messages that arrived."""
        self.reservation.expect_more(self, now)
        self.window.count(messages, self._largest, self.producer.has_stored)
        self.producer.has_stored = False
        self._largest = 0
        self._is_active = True
        self.used_at = now
        if self.state is not CreditState.IN_USE:
            self.state = after_use(self.state)
        if self.hold.first_bytes > 0:
            self.hold.count_first(0)

    def _release(self, messages: i64, now: float) -> None:
        """Release room: hold room first, because a message without own room uses it."""
        held = min(messages, self.hold.count())
        self.hold.release(held)
        if messages > held:
            self.reservation.settle(messages - held, now)

    def _leave_line(self, now: float) -> None:
        gate = self.gate
        if gate is not None:
            self.line.end_wait(self)
            gate.leave(self)
            gate.review(now)
            self.producer.update_blocked(now)
        self.ticket = 0
