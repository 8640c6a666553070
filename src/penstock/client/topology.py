"""Declarations and bindings of queues, exchanges and virtual hosts, as steps of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from penstock.client.control_operations import asking
from penstock.client.engine.connection import Engine
from penstock.client.engine.waits import Steps
from penstock.client.options import queue_arguments

if TYPE_CHECKING:
    from penstock.client.option_types import QueueSettings


def declare_queue(
    engine: Engine,
    /,
    name: str = "",
    *,
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
    **settings: Unpack[QueueSettings],
) -> Steps[str]:
    """Declare a queue, and return its name, which is chosen if it is empty. Raises `ChannelClosed`.

    `settings` are those of docs/settings.md with `_` for `-`, such as `capacity_messages=1000`.
    """
    if not name and engine.protocol == "amqp10":
        name = engine.services.new_name(engine)
    fields = {"queue": name, "durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
    answer = yield from engine.calling("queue.declare", {**fields, "arguments": queue_arguments(settings)})
    return str(answer["queue"])


def delete_queue(engine: Engine, name: str, *, if_unused: bool = False, if_empty: bool = False) -> Steps[int]:
    """Delete a queue; return the number of its messages."""
    answer = yield from engine.calling("queue.delete", {"queue": name, "if_unused": if_unused, "if_empty": if_empty})
    return int(answer["message_count"])


def purge_queue(engine: Engine, name: str) -> Steps[int]:
    """Drop the ready messages of a queue; return their number."""
    answer = yield from engine.calling("queue.purge", {"queue": name})
    return int(answer["message_count"])


def declare_exchange(
    engine: Engine,
    /,
    name: str,
    kind: str = "direct",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    **settings: object,
) -> Steps[None]:
    """Declare an exchange of a type such as direct or topic; an internal exchange accepts messages only from
    other exchanges.
    """
    fields = {"exchange": name, "type": kind, "durable": durable, "auto_delete": auto_delete, "internal": internal}
    yield from engine.calling("exchange.declare", {**fields, "arguments": queue_arguments(settings)})


def delete_exchange(engine: Engine, name: str, *, if_unused: bool = False) -> Steps[None]:
    """Delete an exchange."""
    yield from engine.calling("exchange.delete", {"exchange": name, "if_unused": if_unused})


def bind(engine: Engine, /, queue: str, exchange: str, routing_key: str = "", **arguments: object) -> Steps[None]:
    """Bind a queue to an exchange."""
    place = {"queue": queue, "exchange": exchange, "routing_key": routing_key}
    yield from engine.calling("queue.bind", {**place, "arguments": arguments})


def unbind(engine: Engine, /, queue: str, exchange: str, routing_key: str = "", **arguments: object) -> Steps[None]:
    """Undo `bind`; an absent binding is no error."""
    yield from _unbinding(engine, "queue.unbind", {"queue": queue, "exchange": exchange}, routing_key, arguments)


def bind_exchange(
    engine: Engine, /, destination: str, source: str, routing_key: str = "", **arguments: object
) -> Steps[None]:
    """Bind an exchange to an exchange: messages of `source` with a matching key are routed to `destination` too."""
    place = {"destination": destination, "source": source, "routing_key": routing_key}
    yield from engine.calling("exchange.bind", {**place, "arguments": arguments})


def unbind_exchange(
    engine: Engine, /, destination: str, source: str, routing_key: str = "", **arguments: object
) -> Steps[None]:
    """Undo `bind_exchange`; an absent binding is no error."""
    place = {"destination": destination, "source": source}
    yield from _unbinding(engine, "exchange.unbind", place, routing_key, arguments)


def _unbinding(
    engine: Engine, method: str, place: dict[str, Any], routing_key: str, arguments: dict[str, object]
) -> Steps[None]:
    place["routing_key"] = routing_key
    if engine.protocol != "amqp10" or not arguments:
        yield from engine.calling(method, {**place, "arguments": arguments})
        return
    answer = yield from engine.calling("bindings.find", place)
    for each in answer["found"]:
        if each["arguments"] == arguments:
            yield from engine.calling("bindings.drop", {"location": each["location"]})


def declare_vhost(engine: Engine, name: str) -> Steps[bool]:
    """Create a virtual host; return whether it is new."""
    answer = yield from asking(engine, "vhost.declare", {"name": name})
    return bool(answer["created"])


def delete_vhost(engine: Engine, name: str) -> Steps[None]:
    """Delete a virtual host with all its objects, but not this connection's own; its connections are closed."""
    yield from asking(engine, "vhost.delete", {"name": name})
