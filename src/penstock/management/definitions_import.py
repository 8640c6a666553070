"""Definitions import: all or nothing, in steps of some entries.

Each entry is declared as a client would, and is visible at once. An error undoes the entries before it in reverse
order. Entries that others have begun to use stay, and the error names them. Imports and changes of settings run one
after the other (`Scheduler.start`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.content.field_table import InvalidTable, check_table
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding
from penstock.core.routing.exchange import Exchange
from penstock.core.settings import changes
from penstock.core.settings.table import COMMAND
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, PreconditionFailed
from penstock.flow.work import Steps
from penstock.management import vhost_admin
from penstock.management.control_request import ControlRequest
from penstock.management.definitions_parser import NOTHING_IMPORTED, PARSE_WORK, Entry, ParsedDefinitions
from penstock.management.json_reader import JsonError, JsonReader
from penstock.management.rabbitmq_json import Shape
from penstock.management.rabbitmq_policies import FOR_QUEUES, NO_MATTER, pattern_of
from penstock.setting_names import SettingValue, read_settings
from penstock.setting_names.setting_value import shown

if TYPE_CHECKING:
    from penstock.management.node import Node

ENTRY_WORK: Final = 80
"""Units of work per entry, made or undone; a policy counts what it examines."""
LEFT_TOLD: Final = 5
"""Most remaining items that an error names."""

Undo = Callable[[], str]
"""Undo action; returns the name of an item that stays because it is in use, else ""."""


def import_steps(node: Node, data: bytes, vhost: str | None) -> Steps[Shape]:
    """Import a file in steps; `vhost` is the default virtual host of entries. Return the numbers of new items.

    Raises PreconditionFailed (406) with line and key, after undoing everything.
    """
    work = Import(node, data, vhost)
    try:
        yield from work.run()
    except BrokerError as error:
        yield from work.take_back()
        raise work.failure(error) from None
    return {"made": dict(work.made), "not_imported": dict(work.defined.read_over)}


def answer_import(node: Node, request: ControlRequest) -> Steps[Shape]:
    """Answer definitions.import {definitions, everywhere}: the text of a file; see `import_steps`."""
    reader = JsonReader(request.unread or b"{}")
    try:
        while not reader.step():
            node.broker.work.done += PARSE_WORK
            yield
    except JsonError as error:
        raise PreconditionFailed(f"the body of a control request must be a JSON object: {error}") from None
    text = reader.found.get("definitions")
    if not isinstance(text, str):
        raise PreconditionFailed("'definitions' must be a string: the text of a file")
    if reader.has_halves:
        raise PreconditionFailed(f"a string contains a lone surrogate (half a character){NOTHING_IMPORTED}")
    vhost = None if reader.found.get("everywhere") is True else request.vhost.name
    return (yield from import_steps(node, text.encode(), vhost))


class Import:
    """One import, with its undo actions."""

    def __init__(self, node: Node, data: bytes, vhost: str | None) -> None:
        self.node = node
        self.defined = ParsedDefinitions(data, vhost)
        self.made: dict[str, int] = {}
        self._undo: list[Undo] = []
        self._put: list[tuple[str, dict[str, SettingValue]]] = []
        """Changed patterns, with their settings before."""
        self._left: list[str] = []

    def run(self) -> Steps[None]:
        """Run the import. Raises PreconditionFailed (406) with line and key."""
        work = self.node.broker.work
        while not self.defined.complete:
            work.done += self.defined.read()
            yield
        entries = self.defined.entries
        makes: list[tuple[str, Callable[[Entry], Undo | None]]] = [
            ("vhosts", self._vhost),
            ("exchanges", self._exchange),
            ("queues", self._queue),
            ("bindings", self._binding),
        ]
        for section, make in makes:
            for entry in entries[section]:
                self._make(entry, make)
                work.done += ENTRY_WORK
                yield
        for entry in self._policies():
            yield from self._policy(entry)
        self._log_result()

    def take_back(self) -> Steps[None]:
        """Undo everything in reverse order."""
        for pattern, before in reversed(self._put):
            yield from self._put_back(pattern, before)
        while self._undo:
            left = self._undo.pop()()
            if left:
                self._left.append(left)
            self.node.broker.work.done += ENTRY_WORK
            yield

    def failure(self, error: BrokerError) -> BrokerError:
        """Return the error of an import that was undone; it names what stays."""
        if not self._left:
            return error
        named = ", ".join(self._left[:LEFT_TOLD])
        more = f" and {len(self._left) - LEFT_TOLD} more" if len(self._left) > LEFT_TOLD else ""
        text = str(error).removesuffix(NOTHING_IMPORTED)
        return PreconditionFailed(f"{text}; undone, except for items in use: {named}{more}")

    def _make(self, entry: Entry, make: Callable[[Entry], Undo | None]) -> None:
        try:
            undo = make(entry)
        except InvalidTable as error:
            raise self.defined.error([entry.section, entry.index, "arguments"], str(error)) from None
        except BrokerError as refusal:  # mypyc: a name has one type in a function.
            raise self.defined.error([entry.section, entry.index], str(refusal)) from None
        if undo is not None:
            self._undo.append(undo)
            self.made[entry.section] = self.made.get(entry.section, 0) + 1

    def _log_result(self) -> None:
        node = self.node
        summary = ", ".join(f"{count} {name}" for name, count in self.made.items()) or "nothing new"
        node.log(f"definitions imported: {summary}")
        if any(self.defined.read_over.values()):
            listed = ", ".join(f"{count} {name}" for name, count in self.defined.read_over.items())
            node.log(f"definitions: not imported were {listed}")

    # Entries

    def _vhost(self, entry: Entry) -> Undo | None:
        name = entry.text("name")
        if not vhost_admin.declare_vhost(self.node, name):
            return None
        vhost = self.node.broker.vhosts[name]
        return lambda: self._drop_vhost(vhost)

    def _exchange(self, entry: Entry) -> Undo | None:
        vhost = vhost_admin.find_vhost(self.node, entry.text("vhost"))
        name = entry.text("name")
        there = name in vhost.exchanges
        arguments = entry.table("arguments")
        check_table(arguments)
        vhost.declare_exchange(
            name,
            entry.text("type"),
            arguments,
            entry.flag("durable"),
            entry.flag("auto_delete"),
            entry.flag("internal"),
        )
        exchange = vhost.exchanges.get(name)
        return None if there or exchange is None else lambda: self._drop_exchange(vhost, exchange)

    def _queue(self, entry: Entry) -> Undo | None:
        vhost = vhost_admin.find_vhost(self.node, entry.text("vhost"))
        name = entry.text("name")
        there = name in vhost.queues
        arguments = entry.table("arguments")
        kind = entry.text("type", "classic")
        if kind != "classic" and "x-queue-type" not in arguments:
            arguments = {**arguments, "x-queue-type": kind}
        check_table(arguments)
        queue = vhost.declare_queue(name, arguments, entry.flag("durable"), entry.flag("auto_delete"), None, None)
        self.node.broker.touch_queue(queue)
        return None if there else lambda: self._drop_queue(queue)

    def _binding(self, entry: Entry) -> Undo | None:
        vhost = vhost_admin.find_vhost(self.node, entry.text("vhost"))
        source = vhost.exchange(entry.text("source"))
        key, arguments, name = entry.text("routing_key"), entry.table("arguments"), entry.text("destination")
        check_table(arguments)
        queue: Queue | None = None
        target: Exchange | None = None
        kind = entry.text("destination_type")
        if kind == "queue":
            queue = vhost.queue(name)
        elif kind == "exchange":
            target = vhost.exchange(name)
        else:
            raise PreconditionFailed(f"destination_type must be queue or exchange, not '{kind}'")
        if source.find(queue, target, key, arguments) is not None:
            return None
        binding = vhost.bind(source.name, queue, target, key, arguments)
        return lambda: self._drop_binding(vhost, binding)

    def _policies(self) -> list[Entry]:
        """Return one policy for each pattern. Patterns apply to all virtual hosts, so each must be in all of them."""
        by_pattern: dict[str, tuple[Entry, set[str]]] = {}
        for entry in self.defined.entries["policies"]:
            vhost_admin.find_vhost(self.node, entry.text("vhost"))
            first, vhosts = by_pattern.setdefault(entry.text("pattern"), (entry, set()))
            if first.table("definition") != entry.table("definition"):
                raise self._error(entry, "pattern", "the same pattern has another definition elsewhere")
            vhosts.add(entry.text("vhost"))
        for entry, vhosts in by_pattern.values():
            if len(vhosts) < len(self.node.broker.vhosts):
                lacking = sorted(set(self.node.broker.vhosts) - vhosts)
                reason = f"a pattern applies to all virtual hosts, but there is no such policy for '{lacking[0]}'"
                raise self._error(entry, "vhost", reason)
        return [entry for entry, _ in by_pattern.values()]

    def _policy(self, entry: Entry) -> Steps[None]:
        """Apply the settings of a policy's pattern."""
        if entry.text("apply-to", "queues") not in FOR_QUEUES:
            raise self._error(entry, "apply-to", "only queues can have policies")
        definition = {name: value for name, value in entry.table("definition").items() if name not in NO_MATTER}
        try:
            pattern = pattern_of(entry.text("name"), entry.text("pattern"))
        except BrokerError as error:
            raise self._error(entry, "pattern", str(error)) from None
        if not definition:
            return
        before = dict(self.node.broker.table.entries_of("queue", pattern, COMMAND))
        try:
            words = read_settings("queue", pattern, definition)
            yield from changes.set_settings_steps(self.node.broker, "queue", pattern, words)
        except BrokerError as error:
            raise self._error(entry, "definition", str(error)) from None
        self._put.append((pattern, before))
        self.made["policies"] = self.made.get("policies", 0) + 1
        listed = ", ".join(f"{name}={shown(word.raw)}" for name, word in words.items())
        self.node.record_setting(f"queue '{pattern}'", f"set by an import: {listed}")

    def _error(self, entry: Entry, key: str, text: str) -> PreconditionFailed:
        return self.defined.error(["policies", entry.index, key], text)

    # Undo of unused items

    def _drop_vhost(self, vhost: VirtualHost) -> str:
        node = self.node
        if node.broker.vhosts.get(vhost.name) is not vhost:
            return ""
        if vhost.queues or any(connection.vhost is vhost for connection in node.connections.values()):
            return f"vhost '{vhost.name}'"
        vhost_admin.delete_vhost(node, vhost.name)
        return ""

    def _drop_exchange(self, vhost: VirtualHost, exchange: Exchange) -> str:
        if vhost.exchanges.get(exchange.name) is not exchange:
            return ""
        try:
            vhost.delete_exchange(exchange.name, True)
        except BrokerError:
            return f"exchange '{exchange.name}'"
        return ""

    def _drop_queue(self, queue: Queue) -> str:
        if queue.deleted:
            return ""
        if queue.consumers or queue.cursors or queue.depth_messages() or queue.gate.in_line():
            return f"queue '{queue.name}'"
        self.node.broker.delete_queue(queue)
        return ""

    def _drop_binding(self, vhost: VirtualHost, binding: Binding) -> str:
        found = binding.source.find(binding.queue, binding.exchange, binding.key, binding.arguments)
        if found is binding and vhost.exchanges.get(binding.source.name) is binding.source:
            vhost.remove_binding(binding)
        return ""

    def _put_back(self, pattern: str, before: dict[str, SettingValue]) -> Steps[None]:
        broker = self.node.broker
        if broker.table.entries_of("queue", pattern, COMMAND):
            yield from changes.remove_steps(broker, "queue", pattern, [])
        if before:
            yield from changes.set_settings_steps(broker, "queue", pattern, before)
