"""Definitions in RabbitMQ's format: what is declared goes out, and comes in again, everything or nothing.

An import is one step of the broker: nobody sees half of it. It is carried out entry by entry, each as a declaration
of a client would be; what goes wrong takes back what was made before it, in reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.adapter import hosting
from penstock.adapter.defined import Defined, Entry, read
from penstock.adapter.listing import PAGE_MOST
from penstock.adapter.policies import FOR_QUEUES, NO_MATTER, pattern_of, regex_of
from penstock.adapter.request import Request
from penstock.adapter.shapes import API_VERSION, Shape, plain
from penstock.core import changes
from penstock.core.binding import Binding
from penstock.core.exchange import Exchange
from penstock.core.queue import Queue
from penstock.core.routing import CONTROL_EXCHANGE
from penstock.core.table import COMMAND
from penstock.core.table import Entry as Said
from penstock.core.vhost import VirtualHost
from penstock.errors import BrokerError, NotFound, PreconditionFailed
from penstock.names import Word, read_settings
from penstock.names.values import shown
from penstock.wire.amqp091.codec import CodecError, encode_table

if TYPE_CHECKING:
    from penstock.adapter.hub import Hub

SECTIONS: Final = ("vhosts", "policies", "queues", "exchanges", "bindings")

Undo = Callable[[], None]


# Out


def head(hub: Hub, everywhere: bool) -> Shape:
    """Return what an export says about itself, of all virtual hosts or of one.

    Users and permissions are in the settings file, not here.
    """
    about: Shape = {
        "rabbit_version": API_VERSION,
        "product_name": "Penstock",
        "product_version": hub.control.version,
        "parameters": [],
    }
    if not everywhere:
        return about
    return {
        **about,
        "rabbitmq_version": API_VERSION,
        "users": [],
        "permissions": [],
        "topic_permissions": [],
        "global_parameters": [],
    }


def collect(hub: Hub, section: str, only: VirtualHost | None) -> list[tuple[VirtualHost, object]]:
    """Return what a section of an export has, to be made plain by `plainly` a few at a time."""
    found: list[tuple[VirtualHost, object]] = []
    for vhost in list(hub.broker.vhosts.values()) if only is None else [only]:
        if section == "vhosts":
            found.append((vhost, vhost))
        elif section == "queues":
            found += [(vhost, queue) for queue in vhost.queues.values() if queue.owner is None]
        elif section == "policies":
            found += [(vhost, said) for said in hub.broker.table.entries() if said.scope == "queue" and said.command]
        else:
            for exchange in vhost.exchanges.values():
                if section == "bindings":
                    found += [(vhost, binding) for binding in exchange.bindings.values() if _lasts(binding)]
                elif exchange.name not in ("", CONTROL_EXCHANGE) and not exchange.name.startswith("amq."):
                    found.append((vhost, exchange))
    return found


def _lasts(binding: Binding) -> bool:
    return binding.queue is None or binding.queue.owner is None


def plainly(vhost: VirtualHost, thing: object, named: bool) -> Shape:
    """Return one thing of an export; `named`: with its virtual host."""
    found: Shape = {"vhost": vhost.name} if named else {}
    if isinstance(thing, Queue):
        found |= {"name": thing.name, "durable": thing.durable, "auto_delete": thing.auto_delete}
        return {**found, "arguments": plain(thing.arguments)}
    if isinstance(thing, Exchange):
        found |= {"name": thing.name, "type": thing.kind, "durable": thing.durable}
        return {
            **found,
            "auto_delete": thing.auto_delete,
            "internal": thing.internal,
            "arguments": plain(thing.arguments),
        }
    if isinstance(thing, Binding):
        target = thing.queue.name if thing.queue is not None else ""
        if thing.exchange is not None:
            target = thing.exchange.name
        return {
            **found,
            "source": thing.source.name,
            "destination": target,
            "destination_type": "queue" if thing.exchange is None else "exchange",
            "routing_key": thing.key,
            "arguments": plain(thing.arguments),
        }
    if isinstance(thing, Said):
        return {**found, **policy(thing.pattern), "definition": definition(thing.command)}
    return {"name": vhost.name}


def policy(pattern: str) -> Shape:
    """Return settings of a pattern as one of RabbitMQ's policies, without what it sets."""
    return {"name": pattern, "pattern": regex_of(pattern), "apply-to": "queues", "priority": 0}


def definition(words: dict[str, Word]) -> Shape:
    """Return what settings say, by the names by which they were given."""
    return {word.alias: plain(word.given) for word in words.values()}


def answer_export(hub: Hub, request: Request) -> Shape:
    """definitions.export {section, after, everywhere}: the head, where no section is named; else a page of it."""
    only = None if request.fields.get("everywhere") is True else request.vhost
    if request.fields.get("section") is None:
        return {**head(hub, only is None), "sections": list(SECTIONS)}
    section = request.text("section")
    if section not in SECTIONS:
        raise PreconditionFailed(f"'section' must be one of {', '.join(SECTIONS)}, not '{section}'")
    after = request.amount("after", 0)
    items = collect(hub, section, only)
    page = items[after : after + PAGE_MOST]
    end = after + len(page)
    return {
        "items": [plainly(vhost, thing, True) for vhost, thing in page],
        "next": end if end < len(items) else None,
    }


# In


class Import:
    """One import: what it has made so far, so that it can be taken back."""

    def __init__(self, hub: Hub, defined: Defined) -> None:
        self.hub = hub
        self.defined = defined
        self.undo: list[Undo] = []
        self.made: dict[str, int] = {}

    def run(self) -> None:
        """Carry it out. Raises PreconditionFailed (406), with line and key, having made nothing."""
        entries = self.defined.entries
        try:
            for section, make in (
                ("vhosts", self._vhost),
                ("exchanges", self._exchange),
                ("queues", self._queue),
                ("bindings", self._binding),
            ):
                for entry in entries[section]:
                    self._one(entry, make)
            self._policies(entries["policies"])
        except BrokerError:
            for undo in reversed(self.undo):
                undo()
            raise

    def _one(self, entry: Entry, make: Callable[[Entry], Undo | None]) -> None:
        try:
            undo = make(entry)
        except BrokerError as error:
            raise self.defined.error([entry.section, entry.index], str(error)) from None
        except CodecError as error:
            raise self.defined.error([entry.section, entry.index, "arguments"], error.reason) from None
        if undo is not None:
            self.undo.append(undo)
            self.made[entry.section] = self.made.get(entry.section, 0) + 1

    def _vhost(self, entry: Entry) -> Undo | None:
        name = entry.text("name")
        if not hosting.declare_vhost(self.hub, name):
            return None
        return lambda: hosting.delete_vhost(self.hub, name)

    def _exchange(self, entry: Entry) -> Undo | None:
        vhost = hosting.find_vhost(self.hub, entry.text("vhost"))
        name = entry.text("name")
        there = name in vhost.exchanges
        arguments = entry.table("arguments")
        encode_table(arguments)
        vhost.declare_exchange(
            name,
            entry.text("type"),
            arguments,
            entry.flag("durable"),
            entry.flag("auto_delete"),
            entry.flag("internal"),
        )
        return None if there else lambda: vhost.delete_exchange(name, False)

    def _queue(self, entry: Entry) -> Undo | None:
        vhost = hosting.find_vhost(self.hub, entry.text("vhost"))
        name = entry.text("name")
        there = name in vhost.queues
        arguments = entry.table("arguments")
        kind = entry.text("type", "classic")
        if kind != "classic" and "x-queue-type" not in arguments:
            arguments = {**arguments, "x-queue-type": kind}
        encode_table(arguments)
        queue = vhost.declare_queue(name, arguments, entry.flag("durable"), entry.flag("auto_delete"), None, None)
        self.hub.broker.use(queue)
        if there:
            return None
        return lambda: self._drop(queue)

    def _drop(self, queue: Queue) -> None:
        self.hub.broker.delete_queue(queue)

    def _binding(self, entry: Entry) -> Undo | None:
        vhost = hosting.find_vhost(self.hub, entry.text("vhost"))
        source = vhost.exchange(entry.text("source"))
        key, arguments, name = entry.text("routing_key"), entry.table("arguments"), entry.text("destination")
        encode_table(arguments)
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
        return lambda: vhost.take_back(binding)

    def _policies(self, entries: list[Entry]) -> None:
        """Policies become settings of patterns. Those count in all virtual hosts, so each must be said for all."""
        said: dict[str, tuple[Entry, set[str]]] = {}
        for entry in entries:
            hosting.find_vhost(self.hub, entry.text("vhost"))
            first, vhosts = said.setdefault(entry.text("pattern"), (entry, set()))
            if first.table("definition") != entry.table("definition"):
                raise self._error(entry, "pattern", "the same pattern has another definition elsewhere")
            vhosts.add(entry.text("vhost"))
        for entry, vhosts in said.values():
            lacking = sorted(set(self.hub.broker.vhosts) - vhosts)
            if lacking:
                reason = f"a pattern counts in all virtual hosts, and this one is not said for '{lacking[0]}'"
                raise self._error(entry, "vhost", reason)
            self._policy(entry)

    def _policy(self, entry: Entry) -> None:
        if entry.text("apply-to", "queues") not in FOR_QUEUES:
            raise self._error(entry, "apply-to", "settings by pattern are for queues here")
        definition = {name: value for name, value in entry.table("definition").items() if name not in NO_MATTER}
        try:
            pattern = pattern_of(entry.text("name"), entry.text("pattern"))
        except BrokerError as error:
            raise self._error(entry, "pattern", str(error)) from None
        if not definition:
            return
        table = self.hub.broker.table
        before = dict(table.said("queue", pattern, COMMAND))
        try:
            words = read_settings("queue", pattern, definition)
            changes.put(self.hub.broker, "queue", pattern, words)
        except BrokerError as error:
            raise self._error(entry, "definition", str(error)) from None
        self.undo.append(lambda: _put_back(self.hub, pattern, before, words))
        self.made["policies"] = self.made.get("policies", 0) + 1
        listed = ", ".join(f"{name}={shown(word.given)}" for name, word in words.items())
        self.hub.note_setting(f"queue '{pattern}'", f"set by an import: {listed}")

    def _error(self, entry: Entry, key: str, text: str) -> PreconditionFailed:
        return self.defined.error(["policies", entry.index, key], text)


def _put_back(hub: Hub, pattern: str, before: dict[str, Word], words: dict[str, Word]) -> None:
    changes.remove(hub.broker, "queue", pattern, [])
    if before:
        changes.put(hub.broker, "queue", pattern, before)


def import_text(hub: Hub, text: str, vhost: str | None) -> Shape:
    """Import definitions; `vhost` is the one that they are for where they do not say it. Returns what was made.

    Raises PreconditionFailed (406) with line and key, having imported nothing; NotFound (404) for an unknown `vhost`.
    """
    if vhost is not None and vhost not in hub.broker.vhosts:
        raise NotFound(f"no vhost '{vhost}'")
    work = Import(hub, read(text, vhost))
    work.run()
    made: Shape = dict(work.made)
    over: Shape = dict(work.defined.read_over)
    told = ", ".join(f"{count} {name}" for name, count in work.made.items()) or "nothing new"
    hub.note(f"definitions imported: {told}")
    if any(work.defined.read_over.values()):
        listed = ", ".join(f"{count} {name}" for name, count in work.defined.read_over.items())
        hub.note(f"definitions: not imported were {listed}")
    return {"made": made, "not_imported": over}


def answer_import(hub: Hub, request: Request) -> Shape:
    """definitions.import {definitions, everywhere}: the text of a file; see `import_text`."""
    everywhere = request.fields.get("everywhere") is True
    return import_text(hub, request.text("definitions"), None if everywhere else request.vhost.name)
