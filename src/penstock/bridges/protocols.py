"""Protocols of the two connections of a bridge: the same for both, where the brokers have one in common.

A message then goes on as it came, without being decoded. AMQP 0-9-1 comes first: it has values in headers that AMQP 1.0
cannot carry, and each confirm means that a queue has the message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Final

from penstock.client.aio import Connection
from penstock.client.engine.amqp10.addresses import is_rabbitmq_3
from penstock.client.errors import ClientError, WrongProtocol
from penstock.client.options import Options

AUTO: Final = "auto"
AMQP091: Final = "amqp091"
AMQP10: Final = "amqp10"

Open = Callable[[Options], Awaitable[Connection]]
"""Function that opens a connection; it raises `WrongProtocol` if the broker has not the protocol of the options."""
Close = Callable[[Connection], Awaitable[None]]


class UnfitProtocol(ClientError):
    """The broker speaks the protocol, and may lose messages that are sent by it."""


async def meet(
    old: Options, new: Options, open_old: Open, open_new: Open, close: Close
) -> tuple[Connection, Connection]:
    """Open the connections to the source and the target, and return them. `close` ends one that has to change."""
    wanted = AMQP091 if old["protocol"] == AUTO else old["protocol"]
    target = await _target(new, _order(new, wanted), open_new, close)
    source = await _first(old, _order(old, target.protocol), open_old)
    if source.protocol == target.protocol or new["protocol"] != AUTO:
        return source, target
    try:
        again = await _target(new, (source.protocol,), open_new, close)
    except (WrongProtocol, UnfitProtocol):
        return source, target
    await close(target)
    return source, again


async def _target(options: Options, protocols: tuple[str, ...], opens: Open, close: Close) -> Connection:
    """Return the connection to the target, by the first protocol that it has, and by which it loses nothing."""
    found = await _first(options, protocols, opens)
    try:
        check_target(found)
    except UnfitProtocol:
        await close(found)
        rest = protocols[protocols.index(found.protocol) + 1 :]
        if not rest:
            raise
        return await _target(options, rest, opens, close)
    return found


async def _first(options: Options, protocols: tuple[str, ...], opens: Open) -> Connection:
    for protocol in protocols[:-1]:
        try:
            return await opens(with_protocol(options, protocol))
        except WrongProtocol:
            continue
    return await opens(with_protocol(options, protocols[-1]))


def _order(options: Options, first: str) -> tuple[str, ...]:
    """Return the protocols to try."""
    given: str = options["protocol"]
    if given != AUTO:
        return (given,)
    return (first, AMQP10 if first == AMQP091 else AMQP091)


def with_protocol(options: Options, protocol: str) -> Options:
    """Return the options with a protocol."""
    found = copy(options)
    found.values = {**options.values, "protocol": protocol}
    return found


def check_target(connection: Connection) -> None:
    """Raise `UnfitProtocol` if the target may confirm a message that no queue has."""
    server = connection.server_properties
    if connection.protocol == AMQP10 and is_rabbitmq_3(server):
        raise UnfitProtocol(
            f"the target, RabbitMQ {server.get('version')}, confirms messages without a queue over AMQP 1.0 and "
            f"breaks off at a full queue; set protocol=amqp091 in its URL, or leave it out"
        )
