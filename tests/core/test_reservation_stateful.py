"""Reservations under anything that senders, consumers and operators may do, in any order.

After every step each queue on every road is looked at: what is reserved there is what the senders have, and depth and
reservations together are within the capacity. Amounts above the queues count depths only, which stay within as well. A
message of credit that has its room finds it in all of its queues, and goes in unless an amount above them stops it.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.gates.address_depth import AddressDepth, depth_of
from penstock.core.publish.producer import Producer
from penstock.core.publish.reservation import Reservation
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.settings.table import COMMAND
from penstock.flow.level import Level, Thresholds
from penstock.flow.shared_limit import SharedLimit
from penstock.settings.read import read_settings
from tests.profiles import examples
from tests.support import at_once, setting_values
from tests.support.broker_fixture import House
from tests.support.topology import resolve

NAMES = ("q0", "q1", "q2")
ROUTES = (("", "q0"), ("", "q1"), ("amq.fanout", ""), ("", "q2"), ("amq.fanout", ""))
"""Roads of the senders; the fan-out leads to q0 and q1."""
CHARGES = (10, 100, 30, 1, 60)
SENDER = st.integers(0, len(ROUTES) - 1)
QUEUE = st.sampled_from(NAMES)
MUCH = 1 << 40


def in_bytes(capacity: int) -> Thresholds:
    return setting_values.in_bytes(capacity, capacity * 8 // 10, capacity // 2)


class Sender:
    """A producer with its reservation on one road."""

    def __init__(self, house: House, number: int, scale: int) -> None:
        self.house = house
        self.exchange, self.key = ROUTES[number]
        self.producer: Producer = house.producer(f"s{number}")
        self.route = self.resolved()
        self.reservation = Reservation(self.route.queues, CHARGES[number] * scale, self.route.gates)

    def resolved(self) -> Route:
        route = resolve(self.house.vhost, self.exchange, self.key)
        return route

    def follow(self) -> None:
        self.route = self.resolved()
        self.reservation.follow(self.route.queues, self.route.gates, self.house.broker.now)


class Reservations(RuleBasedStateMachine):
    """Five senders with credit, others without, consumers, and an operator who changes everything."""

    @initialize(
        vhost=st.sampled_from([0, 600, 100_000]),
        memory=st.sampled_from([0, 3_000, 400_000]),
        scale=st.sampled_from([1, 2_000]),
    )
    def start(self, vhost: int, memory: int, scale: int) -> None:
        self.scale = scale
        """Factor of all bytes: with large ones the members of shared limits have slack."""
        self.house = House()
        self.broker = self.house.broker
        self.overdrawn: dict[str, tuple[int, int]] = {}
        """By how much each amount was above its capacity at the last look."""
        for name in NAMES:
            self.set_queue(name, 20, 1_000, "block")
            self.declare(name)
        if vhost:
            self.broker.gates.set_vhost_limit(self.house.vhost, in_bytes(vhost * scale))
        if memory:
            self.broker.gates.set_memory_capacity(in_bytes(memory * scale), memory * scale // 10)
        self.senders = [Sender(self.house, number, scale) for number in range(len(ROUTES))]
        self.plain = [self.house.producer(f"p{number}") for number in range(2)]
        self.session = Session()
        self.look()

    def declare(self, name: str) -> None:
        self.house.queue(name)
        if name != "q2":
            self.house.vhost.bind("amq.fanout", self.house.vhost.queues[name], None, "", {})

    def set_queue(self, name: str, messages: int, size: int, policy: str) -> None:
        limits = {"capacity-messages": messages, "capacity-bytes": size * self.scale, "max-length": "none"}
        how = {**limits, "overflow": policy}
        at_once.set_named(self.broker, "queue", name, **how)

    # Senders

    @rule(who=SENDER, wanted=st.integers(1, 40), in_turn=st.booleans())
    def grant(self, who: int, wanted: int, in_turn: bool) -> None:
        sender = self.senders[who]
        sender.follow()
        before = int(sender.reservation.messages)
        granted = int(sender.reservation.grant(wanted, self.broker.now, in_turn))
        assert 0 <= granted <= wanted
        assert int(sender.reservation.messages) == before + granted
        self.look()

    @rule(who=SENDER, times=st.integers(1, 6), larger=st.sampled_from([0, 0, 0, 5, 200]), follow=st.booleans())
    def use(self, who: int, times: int, larger: int, follow: bool) -> None:
        sender = self.senders[who]
        reservation = sender.reservation
        for _ in range(times):
            sender.follow()
            credit, revoked = int(reservation.messages), int(reservation.revoked)
            charge = int(reservation.charge) + larger * self.scale
            sure = credit > 0 and not larger and all(queue.reserved.reserves() for queue in sender.route.queues)
            sure = sure and not self.is_stopped_above(sender, charge)
            has_room = reservation.use(charge, self.broker.now)
            assert int(reservation.messages) == max(credit - 1, 0)
            assert has_room or not sure, "a granted message finds its room"
            if credit == 0:
                assert not has_room
                assert int(reservation.revoked) == max(revoked - 1, 0)
            if has_room:
                for queue in sender.route.queues:
                    assert queue.fits(charge)
                    for pool in queue.membership.pools:
                        assert pool.has_room(1, charge, self.broker.now)
                depths = [int(queue.tail) for queue in sender.route.queues]
                sender.producer.accept(sender.route, sender.route.queues, b"x", charge, None, True)
                assert [int(queue.tail) for queue in sender.route.queues] == [depth + 1 for depth in depths]
            self.look()

    def is_stopped_above(self, sender: Sender, charge: int) -> bool:
        """Whether a virtual host, the memory or an address stops a publish."""
        copies = len(sender.route.queues)
        gates = [*sender.route.gates, *(pool.gate for queue in sender.route.queues for pool in queue.membership.pools)]
        return any(not g.open or g.has_line() or not g.admits(charge, copies, self.broker.now) for g in gates)

    @rule(who=SENDER)
    def give_back(self, who: int) -> None:
        self.senders[who].reservation.give_back(self.broker.now)
        self.look()

    @rule(who=SENDER)
    def leave(self, who: int) -> None:
        self.senders[who].reservation.give_back(self.broker.now)
        self.senders[who].producer.abort()
        self.senders[who] = Sender(self.house, who, self.scale)
        self.look()

    # Others

    @rule(who=st.integers(0, 1), at=SENDER, charge=st.integers(1, 150), times=st.integers(1, 5))
    def publish(self, who: int, at: int, charge: int, times: int) -> None:
        for _ in range(times):
            exchange, key = ROUTES[at]
            self.house.publish(self.plain[who], key, charge * self.scale, exchange)
            if self.plain[who].closing is not None:
                self.plain[who].abort()
                self.plain[who] = self.house.producer(f"p{who}")
            self.look()

    @rule(name=QUEUE, times=st.integers(1, 8), kept=st.booleans())
    def take(self, name: str, times: int, kept: bool) -> None:
        for _ in range(times):
            self.session.get(self.house.vhost.queues[name], not kept, self.broker.now)
            self.look()
        self.run(1000)

    @rule(requeued=st.booleans())
    def settle(self, requeued: bool) -> None:
        outcome = Outcome.RELEASED if requeued else Outcome.ACCEPTED
        self.session.unsettled.settle(1, self.session.unsettled.last_number(), outcome, self.broker.now)
        self.look()
        self.run(1000)

    @rule(turns=st.sampled_from([1, 3, 1000]))
    def run(self, turns: int) -> None:
        self.broker.run(turns)
        self.broker.effects()
        self.look()

    # The operator

    @rule(
        name=QUEUE,
        messages=st.sampled_from([1, 4, 20, 40]),
        size=st.sampled_from([50, 300, 1_000, 4_000]),
        policy=st.sampled_from(["block", "block", "block", "reject", "drop-head"]),
    )
    def change_queue(self, name: str, messages: int, size: int, policy: str) -> None:
        self.set_queue(name, messages, size, policy)
        self.look()

    @rule(name=QUEUE, length=st.sampled_from([0, 1, 3, 15, 10_000]))
    def change_length(self, name: str, length: int) -> None:
        """Give a queue a length, which drops, beside its capacity, which holds."""
        set_so_far = self.broker.table.entries_of("queue", name, COMMAND)
        gone = [each for each in ("overflow", "max-length") if each in set_so_far]
        if gone:
            at_once.remove(self.broker, "queue", name, gone)
        if length:
            at_once.set_named(self.broker, "queue", name, **{"max-length": length})
        self.run(1000)

    @rule(size=st.sampled_from([0, 200, 600, 2_000, 100_000]))
    def change_vhost(self, size: int) -> None:
        self.broker.gates.set_vhost_limit(self.house.vhost, in_bytes(size * self.scale) if size else None)
        self.forget("vhost")
        self.look()

    @rule(size=st.sampled_from([0, 500, 3_000, 400_000]))
    def change_memory(self, size: int) -> None:
        size *= self.scale
        self.broker.gates.set_memory_capacity(in_bytes(size) if size else None, size // 10)
        self.forget("memory")
        self.look()

    @rule(messages=st.sampled_from([0, 2, 8, 30]))
    def change_address(self, messages: int) -> None:
        if messages:
            how = read_settings("address", "#", {"capacity-messages": messages})
            at_once.set_settings(self.broker, "address", "amq.fanout", how)
        elif self.depth() is not None:
            at_once.remove(self.broker, "address", "amq.fanout", ["capacity-messages"])
        self.forget("address")
        self.look()

    @rule(name=QUEUE)
    def delete(self, name: str) -> None:
        queue = self.house.vhost.queues[name]
        self.broker.delete_queue(queue)
        assert (int(queue.reserved.messages), int(queue.reserved.bytes)) == (0, 0)
        self.declare(name)
        self.run(1000)

    # Looking

    def depth(self) -> AddressDepth | None:
        return depth_of(self.house.vhost.exchanges["amq.fanout"].gates)

    def look(self) -> None:
        queues = list(self.house.vhost.queues.values())
        for queue in queues:
            self.look_at_queue(queue)
        pools = list(self.broker.gates.vhosts.values())
        if self.broker.gates.memory is not None:
            pools.append(self.broker.gates.memory)
        for pool in pools:
            self.look_at_pool(pool, queues)
        depth = self.depth()
        if depth is not None:
            self.within("address", depth.thresholds.capacity, depth.messages, depth.bytes, 0, 0)

    def look_at_queue(self, queue: Queue) -> None:
        there = [sender.reservation for sender in self.senders if queue in sender.reservation._reserving]
        reserved = queue.reserved
        assert int(reserved.messages) == sum(int(each.messages) for each in there)
        assert int(reserved.bytes) == sum(int(each.messages * each.charge) for each in there)
        assert len(reserved.holders()) == sum(each.messages > 0 for each in there)
        room = queue.thresholds.capacity
        self.within(f"queue {queue.name}", room, queue.messages, queue.bytes, reserved.messages, reserved.bytes)
        for most in (queue.fast_path_max_messages, queue.withheld_max_messages):
            assert most + reserved.messages <= max(room.messages, reserved.messages)
        for most in (queue.fast_path_max_bytes, queue.withheld_max_bytes):
            assert most + reserved.bytes <= max(room.bytes, reserved.bytes)

    def look_at_pool(self, pool: SharedLimit, queues: list[Queue]) -> None:
        size = sum(int(queue.bytes) for queue in queues)
        if pool is self.broker.gates.memory:
            size += int(self.broker.gates.other_memory.bytes)
        assert pool.bytes >= size
        ceiling = Level(bytes=pool.thresholds.capacity.bytes + pool.reserve)
        self.within(pool.gate.kind, ceiling, 0, size, 0, 0)

    def within(
        self, what: str, capacity: Level, messages: int, size: int, reserved_messages: int, reserved_bytes: int
    ) -> None:
        """Check that depth and reservations are within; a depth above a lowered capacity only gets less."""
        over = max(int(messages - capacity.messages), 0), max(int(size - capacity.bytes), 0)
        before = self.overdrawn.get(f"{what} {capacity}", over)
        assert over[0] <= before[0], f"{what} grows above its capacity"
        assert over[1] <= before[1], f"{what} grows above its capacity"
        self.forget(what)
        self.overdrawn[f"{what} {capacity}"] = over
        assert int(messages + reserved_messages) <= max(int(capacity.messages), int(messages)), what
        assert int(size + reserved_bytes) <= max(int(capacity.bytes), int(size)), what

    def forget(self, what: str) -> None:
        """Forget how far an amount was above its capacity: it has another one now."""
        self.overdrawn = {key: value for key, value in self.overdrawn.items() if not key.startswith(what)}

    def teardown(self) -> None:
        """When all credit is given back and all is drained, everyone has passed and nothing is reserved."""
        if not hasattr(self, "senders"):
            return
        for name in NAMES:
            self.change_length(name, 0)
            self.set_queue(name, 1_000, MUCH, "block")
        self.change_vhost(0)
        self.change_memory(0)
        self.change_address(0)
        for sender in self.senders:
            sender.reservation.give_back(self.broker.now)
        self.look()
        for _ in range(20):
            self.settle(False)
            for name in NAMES:
                self.take(name, 50, False)
        producers = [*self.plain, *[sender.producer for sender in self.senders]]
        assert not any(producer.outbox or producer.gate is not None for producer in producers)
        for queue in self.house.vhost.queues.values():
            assert (int(queue.messages), int(queue.bytes), int(queue.reserved.messages)) == (0, 0, 0)
            assert not queue.reserved.holders()


TestReservations = Reservations.TestCase
TestReservations.settings = settings(
    max_examples=examples(400) // 2,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
