"""Restoring the definitions of a virtual host: exchanges, queues, bindings and cursors."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.journal.journal import numbers_end
from penstock.core.queue.cursor_state import Position
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings, resolve
from penstock.core.queue.storage import QueueStorage
from penstock.core.routing.durability import number_of
from penstock.core.routing.exchange import Exchange, alternate_of, make_exchange
from penstock.core.settings.limits import Defaults
from penstock.core.settings.policies import CLASSIC, QUORUM
from penstock.core.settings.table import SettingsTable
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, StoreError
from penstock.persistence.metadata_codec import Fields
from penstock.settings.features import PLAIN, Features, read_features
from penstock.settings.read import read_arguments
from penstock.settings.value import SettingValue
from penstock.texts import joined


class VhostRestorer:
    """Restorer of definitions in virtual hosts.

    All methods raise StoreError for unreadable records and BrokerError for definitions that cannot be restored. Other
    remarks are appended to a list of sentences.
    """

    def __init__(self, broker: Broker, remarks: list[str]) -> None:
        self.broker = broker
        self.remarks = remarks

    def exchange(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore an exchange; invalid limits are dropped."""
        name, arguments = fields.text("name"), fields.table("arguments")
        if name in vhost.exchanges:
            raise StoreError(f"there is an exchange '{name}' in vhost '{vhost.name}' already")
        exchange = make_exchange(fields.text("type"), vhost.name, name)
        exchange.arguments = arguments
        alternate_of(name, vhost.name, arguments)
        exchange.durable = True
        exchange.auto_delete = fields.flag("auto_delete")
        exchange.internal = fields.flag("internal")
        try:
            vhost.add_exchange(exchange)
        except BrokerError as error:
            self.remarks.append(
                joined(str(error), f"exchange '{name}' in vhost '{vhost.name}' came back without limits")
            )

    def queue(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore a queue; invalid settings are replaced, and its messages stay.

        Its time without use (`expires`) starts anew, because nobody could use it. Auto-delete waits for the next
        consumer to leave.
        """
        name, arguments, number = fields.text("name"), fields.table("arguments"), fields.number("number")
        auto_delete = fields.flag("auto_delete")
        if number == 0:
            raise StoreError("its number is 0")
        if name in vhost.queues:
            raise StoreError(f"there is a queue '{name}' in vhost '{vhost.name}' already")
        settings, problem = settings_of(self.broker.table, vhost.name, name, arguments)
        features, other = features_of(name, arguments)
        for remarks in (problem, other):
            if remarks:
                self.remarks.append(f"vhost '{vhost.name}', {remarks}")
        queue = Queue(vhost.name, name, settings, self.broker.turns, self.broker.losses, features)
        queue.arguments = arguments
        queue.durable = True
        queue.auto_delete = auto_delete
        journal = self.broker.journal
        if journal is not None:
            queue.set_storage(QueueStorage(journal, queue, number))
            if number >= journal.next_queue:  # The record of the next number was lost.
                journal.next_queue = numbers_end(number + 1)
        vhost.add_queue(queue)
        self.broker.touch_queue(queue)

    def binding(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore a binding, if its queue still has the same number."""
        queue: Queue | None = None
        target: Exchange | None = None
        if fields.has("queue"):
            name, number = fields.text("queue"), fields.number("number")
            queue = vhost.queue(name)
            if number_of(queue) != number:
                there = number_of(queue)
                raise StoreError(f"it leads to queue '{name}' number {number}, and that queue is number {there}")
        else:
            target = vhost.exchange(fields.text("exchange"))
        vhost.bind(fields.text("source"), queue, target, fields.text("key"), fields.table("arguments"), True)

    def cursor(self, vhost: VirtualHost, fields: Fields) -> None:
        """Restore a cursor's positions and token."""
        left, generations = fields.names("left"), fields.counts("generations")
        gaps = fields.lists("gaps")
        positions: list[Position] = []
        for name, (number, initial, settled, planned) in fields.positions("positions"):
            queue = vhost.queues.get(name)
            if queue is None or number == 0 or number_of(queue) != number:
                queue = self._deleted(vhost, name)
            position = Position(queue, initial)
            position.settled = settled
            position.planned = planned
            position.left = name in left
            position.generation = generations.get(name, 0)
            position.shared.restore_gaps(planned, gaps.get(name, []))
            positions.append(position)
        lost = fields.number("lost") if fields.has("lost") else 0
        self.broker.ranges.restore_cursor(vhost, fields.text("name"), fields.number("token"), lost, positions)

    def _deleted(self, vhost: VirtualHost, name: str) -> Queue:
        """Return a placeholder for a queue that was transient or deleted."""
        queue = Queue(
            vhost.name, name, resolve(name, {}, Defaults()), self.broker.turns, self.broker.losses, Features()
        )
        queue.deleted = True
        return queue


def settings_of(table: SettingsTable, vhost: str, queue: str, arguments: dict[str, object]) -> tuple[Settings, str]:
    """Return the settings of a queue, and a sentence if they differ from before, else "".

    They differ if a pattern or a new version has made the combination invalid. Then only the queue's own arguments
    apply, and if they are invalid by themselves, the broker's values.
    """
    given: dict[str, SettingValue] = {}
    try:
        given = read_arguments(queue, arguments)
        kind = QUORUM if arguments.get("x-queue-type") == "quorum" else CLASSIC
        return table.queue(vhost, queue, given, kind), ""
    except BrokerError as error:
        problem = str(error)
    defaults = table.defaults()
    try:
        settings = resolve(queue, given, defaults)
    except BrokerError:
        given = {}
        settings = resolve(queue, given, defaults)
    settings.given = given
    how = "its own arguments alone" if given else "the broker's own values"
    return settings, f"{problem}; queue '{queue}' came back with {how}"


def features_of(queue: str, arguments: dict[str, object]) -> tuple[Features, str]:
    """Return the features of a queue from its arguments, and a sentence as `settings_of` does."""
    try:
        return read_features(queue, arguments), ""
    except BrokerError as error:
        return PLAIN, joined(str(error), f"queue '{queue}' came back as an ordinary one")
