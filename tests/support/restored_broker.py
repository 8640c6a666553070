"""What is declared in a broker, what the store has of it, and what of it can be seen when it has come back."""

from __future__ import annotations

from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.core.routing.declarations import is_durable, number_of
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.management.effective_settings import queue_settings, scope_settings
from penstock.operations import definitions_export
from penstock.persistence.metadata_records import NUMBERS, kind_of
from penstock.settings.read import read_settings
from penstock.store.records import MetadataRecord
from tests.support import at_once
from tests.support.driven_connection import make_driver
from tests.support.exports import items_of
from tests.support.memory_store import Shelf


def journaled() -> BrokerDriver:
    """Return a driver with a journal, and the virtual host of the settings file."""
    driver = make_driver()
    driver.broker.journal = Journal(driver.broker.durable_changes, driver.broker.gates.disk, driver.broker.large)
    return driver


class Declared:
    """What is declared in one broker, and the store that has it."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.driver = driver
        self.shelf = Shelf()

    def write(self) -> None:
        """Write whatever the journal has gathered."""
        journal = self.driver.broker.journal
        self.shelf.write(journal)

    def things(self) -> list[MetadataRecord]:
        """Return what the store has, in the order in which it came."""
        return [MetadataRecord(kind, key, data) for (kind, key), data in self.shelf.things.items()]

    def names(self) -> list[tuple[str, str]]:
        """Return kind and key of everything that the store has, in order, but for the numbers set aside."""
        return sorted(name for name in self.shelf.things if name[0] != NUMBERS)

    def tail(self, queue: Queue) -> int:
        """Return the last sequence of a queue that the store knows of, 0 for none."""
        position = self.shelf.positions.get(number_of(queue))
        return 0 if position is None else position.tail

    def restored(self, order: list[MetadataRecord] | None = None) -> tuple[BrokerDriver, list[str]]:
        """Return a fresh driver with all of it, and what there was to say."""
        driver = journaled()
        told = at_once.restore(driver.broker, self.things() if order is None else order)
        journal = driver.broker.journal
        assert not journal.recovering
        assert journal.take() == [], "what is restored is in the store already"
        return driver, told


def lasting(driver: BrokerDriver) -> list[object]:
    """Return everything that the store must have, and nothing else."""
    broker = driver.broker
    found: list[object] = [vhost for name, vhost in broker.vhosts.items() if name != "/"]
    found += [entry for entry in broker.table.entries() if entry.command]
    found += [
        gate for gate in broker.gates.operator_gates.values() if not gate.gate.open and gate.scope != "connection"
    ]
    for vhost in broker.vhosts.values():
        found += [queue for queue in vhost.queues.values() if is_durable(queue)]
        for exchange in vhost.exchanges.values():
            found += [thing for thing in [exchange, *exchange.bindings.values()] if is_durable(thing)]
    return [*found, *[each for vhost in driver.broker.vhosts.values() for each in vhost.cursors.values()]]


def names(driver: BrokerDriver) -> list[tuple[str, str]]:
    """Return kind and key of everything that the store must have, in order; each must be there once."""
    return sorted((kind_of(thing).name, kind_of(thing).key(thing)) for thing in lasting(driver))


def view(driver: BrokerDriver) -> dict[str, object]:
    """Return everything that anybody can see of what lasts; values of tables as texts that tell their types apart."""
    broker = driver.broker
    found: dict[str, object] = {}
    for vhost in broker.vhosts.values():
        found[f"vhost {vhost.name}"] = scope_settings(broker, "vhost", vhost.name)
        for exchange in vhost.exchanges.values():
            bindings = [_binding(binding) for binding in exchange.bindings.values() if is_durable(binding)]
            found[f"bindings {vhost.name!r} {exchange.name!r}"] = sorted(bindings)
            if is_durable(exchange):
                found[f"exchange {vhost.name!r} {exchange.name!r}"] = _exchange(driver, exchange)
        for queue in vhost.queues.values():
            if is_durable(queue):
                found[f"queue {vhost.name!r} {queue.name!r}"] = _queue(driver, queue)
    for vhost_name, name, cursor in [
        (vhost.name, name, cursor) for vhost in driver.broker.vhosts.values() for name, cursor in vhost.cursors.items()
    ]:
        positions: dict[str, tuple[object, ...]] = {}
        for name_of_queue, position in cursor.positions.items():
            queue = position.queue
            number = 0 if queue.deleted else number_of(queue)
            where = (int(position.initial), int(position.settled), int(position.planned))
            positions[name_of_queue] = (number, number == 0 or cursor in queue.cursors, *where)
        found[f"cursor {vhost_name!r} {name!r}"] = (cursor.vhost, cursor.name, cursor.token, positions)
    for entry in broker.table.entries():
        found[f"settings {entry.scope} {entry.pattern!r}"] = [
            (name, word.alias, repr(word.raw), word.value()) for name, word in sorted(entry.command.items())
        ]
    for key, gate in broker.gates.operator_gates.items():
        if key[0] != "connection" and not gate.gate.open:
            found[f"block {key!r}"] = (gate.reason, gate.gate.kind, gate.gate.name)
    return found


def differences(before: dict[str, object], after: dict[str, object]) -> dict[str, tuple[object, object]]:
    """Return what is not the same in two views; nothing at all is as good as an empty list of bindings."""
    return {
        name: (before.get(name, []), after.get(name, []))
        for name in {**before, **after}
        if before.get(name, []) != after.get(name, [])
    }


def exported(driver: BrokerDriver) -> dict[str, list[str]]:
    """Return what an export of the definitions says of what lasts."""
    found: dict[str, list[str]] = {}
    for section in definitions_export.SECTIONS:
        found[section] = sorted(
            repr(definitions_export.exported([item], True))
            for item in items_of(driver, section)
            if not isinstance(item.subject, Queue | Exchange | Binding) or is_durable(item.subject)
        )
    return found


def _exchange(driver: BrokerDriver, exchange: Exchange) -> tuple[object, ...]:
    return (
        exchange.vhost,
        exchange.kind,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        exchange.predeclared,
        exchange.alternate,
        repr(exchange.arguments),
        scope_settings(driver.broker, "address", exchange.name),
        [(gate.kind, gate.name) for gate in exchange.gates],
    )


def _queue(driver: BrokerDriver, queue: Queue) -> tuple[object, ...]:
    features = queue.features
    return (
        number_of(queue),
        queue.storage is not None and queue.storage.journal is driver.broker.journal,
        queue.durable,
        queue.auto_delete,
        repr(queue.arguments),
        (features.max_priority, features.single_active, features.type.name),
        queue_settings(driver.broker, queue),
        (queue.settings.dead_letter_exchange, queue.settings.dead_letter_routing_key),
        (queue.dead_letters is not None, queue.queue_expiry is not None),
        int(queue.delivery_limit()),
        [(gate.kind, gate.name, gate.kind == "operator" and gate.open) for gate in queue.gates],
    )


def _binding(binding: Binding) -> str:
    end: Queue | Exchange | None = binding.queue or binding.exchange
    number = number_of(end) if isinstance(end, Queue) else 0
    return repr((binding.source.name, binding.binding_key[0], end.name, number, binding.key, binding.arguments))


def queue_of(vhost: VirtualHost, name: str, **arguments: object) -> Queue:
    """Declare a durable queue; `capacity_messages=5` is the argument capacity-messages."""
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    return vhost.declare_queue(name, table, True, False, None, None)


def say(driver: BrokerDriver, scope: str, pattern: str, by_file: bool = False, **settings: object) -> None:
    given = {name.replace("_", "-"): value for name, value in settings.items()}
    words = read_settings(scope, pattern, given)
    if by_file:
        at_once.replace_file(driver.broker, [(scope, pattern, words)])
    else:
        at_once.set_settings(driver.broker, scope, pattern, words)


def kept(driver: BrokerDriver) -> list[MetadataRecord]:
    store = Declared(driver)
    store.write()
    return store.things()


def kinds(store: Declared) -> list[str]:
    store.write()
    return [kind for kind, _ in store.names()]
