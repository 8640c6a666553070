"""Links with credit beside publishers without, in one broker: what may happen to them, and what must always hold."""

from __future__ import annotations

from penstock.core.gates.address_depth import depth_of
from penstock.core.publish.credit_state import is_draining, is_idle
from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.hold_room import ASIDE_BYTES, HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.sender_credit import QUEUES_MAX
from penstock.errors import BrokerError
from penstock.flow.gate import Gate
from penstock.flow.level import OVERHEAD, Level, Measure, Thresholds
from penstock.flow.shared_limit import CountedDepth
from tests.support.broker_fixture import MIB, House
from tests.support.sender_links import CHARGE, OCTETS, Link, run_turn, run_until_quiet

QUEUES = ("a", "b", "c")
ROADS: tuple[tuple[str | None, str], ...] = (("a", ""), ("b", ""), ("c", ""), ("", "x"), (None, ""))
"""Key and exchange of the links; the last one leads anywhere."""
PRODUCERS = 3
LINKS = 6


class CreditWorld:
    """One broker with three queues, of which one never holds, a fanout exchange, and bounds on all of their sums."""

    def __init__(self, capacity: int = 12) -> None:
        self.house = House()
        house = self.house
        self.capacity = capacity
        house.broker.gates.set_vhost_limit(house.vhost, _in_bytes(40))
        house.broker.gates.set_memory_capacity(_in_bytes(4000), 0)
        house.set("address", "x", capacity_messages=10, stop_messages=8)
        for name in QUEUES:
            self._declare(name)
        house.vhost.declare_exchange("x", "fanout", {}, False, False, False)
        for name in QUEUES[:2]:
            house.vhost.bind("x", house.vhost.queues[name], None, "", {})
        self.budget = HoldBudget(MIB)
        self.producers: list[Producer] = [house.producer(f"p{n}") for n in range(PRODUCERS)]
        self.links: dict[int, Link] = {}
        self.counted: dict[int, int] = {}
        """Credit as each sender counts it."""

    def _declare(self, name: str) -> None:
        how: dict[str, object] = {"capacity_messages": self.capacity}
        if name == "c":
            how["overflow"] = "drop-head"
        elif name == "b":
            how["qpid.max_size"] = self.capacity * (CHARGE - OVERHEAD) * 2  # It counts without the overhead.
        else:
            how["capacity_bytes"] = self.capacity * CHARGE * 2
        self.house.queue(name, **how)

    # What may happen

    def attach(self, number: int, road: int) -> None:
        if number in self.links:
            return
        key, exchange = ROADS[road % len(ROADS)]
        if key and key not in self.house.vhost.queues:
            return
        self.links[number] = self.link_to(key, exchange)

    def link_to(self, key: str | None, exchange: str, is_size_known: bool = True) -> Link:
        window = CreditWindow(8, MIB, OCTETS if is_size_known else 0)
        return Link(self.house, key, exchange, window, self.budget)

    def send(self, number: int, messages: int, size: int) -> None:
        link = self.links.get(number)
        if link is not None:
            try:
                link.send(messages, CHARGE * (1 + size), None if link.route is not None else QUEUES[size % 3])
            except BrokerError:
                self.detach(number)

    def flow(self, number: int, available: int) -> None:
        link = self.links.get(number)
        if link is not None:
            link.credit.on_flow(available)

    def answer_drain(self, number: int) -> None:
        link = self.links.get(number)
        if link is not None and is_draining(link.credit.state):
            link.credit.give_back(link.left)

    def give_back(self, number: int, messages: int) -> None:
        link = self.links.get(number)
        if link is not None:
            link.credit.give_back(messages)

    def detach(self, number: int) -> None:
        link = self.links.pop(number, None)
        if link is not None:
            link.producer.abort()

    def publish(self, number: int, queue: int, size: int) -> None:
        producer = self.producers[number % PRODUCERS]
        name = QUEUES[queue % 3]
        if name in self.house.vhost.queues and producer.closing is None:
            self.house.publish(producer, name, CHARGE * (1 + size))

    def take(self, queue: int, messages: int) -> None:
        found = self.house.vhost.queues.get(QUEUES[queue % 3])
        for _ in range(messages if found is not None else 0):
            assert found is not None
            self.house.session.get(found, True, self.house.broker.now)

    def delete(self, queue: int) -> None:
        found = self.house.vhost.queues.get(QUEUES[queue % 3])
        if found is not None:
            self.house.broker.delete_queue(found)

    def declare(self, queue: int) -> None:
        name = QUEUES[queue % 3]
        if name not in self.house.vhost.queues:
            self._declare(name)
            if name != "c":
                self.house.vhost.bind("x", self.house.vhost.queues[name], None, "", {})

    def change_capacity(self, queue: int, capacity: int) -> None:
        """Set the capacity by pattern, which counts for queues that have none of their own: the virtual host's."""
        self.house.broker.gates.set_vhost_limit(self.house.vhost, _in_bytes(20 + capacity * 3))

    def block(self, queue: int) -> None:
        self.house.broker.gates.block("queue", "/", QUEUES[queue % 3], "")

    def unblock(self, queue: int) -> None:
        if ("queue", "/", QUEUES[queue % 3]) in self.house.broker.gates.operator_gates:
            gate = self.house.broker.gates.operator_gates[("queue", "/", QUEUES[queue % 3])]
            if not gate.gate.open:
                self.house.broker.gates.unblock("queue", "/", QUEUES[queue % 3])

    def wait(self, tenths: int) -> None:
        self.house.broker.begin(self.house.broker.now + tenths / 10)
        run_turn(self.house)

    def turn(self) -> None:
        run_turn(self.house)

    def step(self) -> None:
        """A turn in which one waiter at most passes; others may be left for the next one."""
        run_turn(self.house, 1)

    def widen(self) -> None:
        """Bind so many queues to the exchange that no room is reserved on that road, or unbind them."""
        house = self.house
        if "w0" not in house.vhost.queues:
            for number in range(QUEUES_MAX):
                house.queue(f"w{number}", capacity_messages=100)
        source = house.vhost.exchanges["x"]
        for number in range(QUEUES_MAX):
            queue = house.vhost.queues[f"w{number}"]
            if source.find(queue, None, "", {}) is None:
                house.vhost.bind("x", queue, None, "", {})
            else:
                house.vhost.unbind("x", queue, None, "", {})

    # What must hold

    def amounts(self) -> list[tuple[str, Level, Level, int, int]]:
        """Each amount: its name, its capacity and depth, and what is reserved: nothing above the queues."""
        found = []
        for queue in self.house.vhost.queues.values():
            depth = Level(queue.messages, queue.bytes)
            room = queue.reserved
            found.append((queue.name, queue.thresholds.capacity, depth, int(room.messages), int(room.bytes)))
        pools: list[CountedDepth] = [*self.house.broker.gates.vhosts.values()]
        if self.house.broker.gates.memory is not None:
            pools.append(self.house.broker.gates.memory)
        address = depth_of(self.house.vhost.exchanges["x"].gates)
        if address is not None:
            pools.append(address)
        for pool in pools:
            depth = Level(pool.messages, pool.bytes)
            found.append((pool.gate.kind, pool.thresholds.capacity, depth, 0, 0))
        return found

    def check(self) -> None:
        """What holds at every moment."""
        for name, capacity, depth, messages, size in self.amounts():
            assert messages >= 0, name
            assert size >= 0, name
            if messages:
                assert int(depth.messages) + messages <= int(capacity.messages), name
                assert capacity.covers(int(depth.messages) + messages, int(depth.bytes) + size), name
        for queue in self.house.vhost.queues.values():
            links = [link for link in self.links.values() if queue in link.credit.reservation._reserving]
            assert int(queue.reserved.messages) == sum(int(link.credit.reservation.messages) for link in links)
            assert int(queue.reserved.bytes) == sum(
                int(link.credit.reservation.messages * link.credit.reservation.charge) for link in links
            )
        held = sum(int(link.credit.hold.messages * link.credit.hold.charge) for link in self.links.values())
        assert int(self.budget.reserved) == held
        aside = sum(int(link.credit.hold.aside_bytes) for link in self.links.values())
        assert aside == (0 if self.budget.room is None else int(self.budget.room.aside_bytes)) <= ASIDE_BYTES
        for link in self.links.values():
            credit = link.credit
            granted = int(credit.reservation.messages + credit.reservation.revoked + credit.hold.count())
            assert granted >= link.left >= 0
            if not credit.is_listed:
                assert granted == link.left, "granted = reserved, and in the hold room"

    def check_quiet(self) -> None:
        """What holds when nothing is left to do at once: nobody waits whose turn could come."""
        run_until_quiet(self.house)
        self.house.broker.begin(self.house.broker.now + 0.01)  # A turn may wait a moment for one that returns.
        run_until_quiet(self.house)
        self.check()
        gates: dict[int, Gate] = {}
        for link in self.links.values():
            credit = link.credit
            # A sender that let its credit lie idle has one message on trial, and asks for more by using it.
            if credit.has_demand() and (credit.credit == 0 or (credit.available > 0 and not is_idle(credit.state))):
                assert credit.gate is not None, "it has demand, and does not wait"
                assert credit.credit != 0 or credit.gate is credit.blocked_by()
            if credit.gate is not None:
                gates[id(credit.gate)] = credit.gate
        for producer in self.producers:
            if producer.gate is not None:
                gates[id(producer.gate)] = producer.gate
        for gate in gates.values():
            first = gate.next_in_line()
            if first is not None and gate.open:
                assert first.obstacle() is not None, f"the first at {gate.kind} '{gate.name}' could go on"
            elif not gate.open and gate.owner is not None:
                measured = gate.measure()
                if measured is not None:
                    assert not is_underfull(measured)

    def end(self) -> None:
        """End all links: nothing of them stays anywhere."""
        for number in list(self.links):
            self.detach(number)
        run_until_quiet(self.house)
        for name, _, _, messages, size in self.amounts():
            assert (messages, size) == (0, 0), name
        assert int(self.budget.reserved) == 0
        assert int(self.budget.messages) == 0
        room = self.budget.room
        assert room is None or (room.first_bytes == room.aside_bytes == 0 and not room.gate.requests)
        for queue in self.house.vhost.queues.values():
            assert all(not gate.requests for gate in queue.gates)
        assert not self.house.broker.credits._waiting


def is_underfull(measured: Measure) -> bool:
    """Return whether a gate must be open; a measure has the bytes as the thresholds count them."""
    resume = measured.thresholds.resume
    return int(measured.messages) <= int(resume.messages) and int(measured.bytes) <= int(resume.bytes)


def _in_bytes(messages: int) -> Thresholds:
    size = messages * CHARGE
    return Thresholds(Level(bytes=size), Level(bytes=size * 9 // 10), Level(bytes=size * 7 // 10))
