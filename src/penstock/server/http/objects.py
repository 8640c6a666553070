"""Handlers that list and show objects with columns, pages and samples, and close connections."""

from __future__ import annotations

import asyncio
import os

from starlette.responses import Response

from penstock.access.password_hash import (
    RABBITMQ_SALT,
    SALT,
    SCRYPT_SALT,
    PasswordHash,
    ScramKeys,
    derive_scram_keys,
    hash_password,
    rabbitmq_hash,
    scram_text,
)
from penstock.access.permission import ADMINISTRATOR
from penstock.core.consume.session import Session
from penstock.describe.lists import Item, bindings_to, collected_steps
from penstock.describe.message_stats import tally_stats
from penstock.describe.queue import queue_in_full
from penstock.describe.session import CONNECTION, session_in_full
from penstock.describe.table import Row
from penstock.describe.vhost import EXCHANGE as EXCHANGE_TABLE
from penstock.describe.vhost import USER, VHOST
from penstock.errors import ConnectionForced
from penstock.operations.topology import destination
from penstock.operations.users import close_connections
from penstock.protocols.common.connection import Connection
from penstock.server.http.listing import collected, listed, listed_queues, one, reading_of
from penstock.server.http.login import check_own, found_or_hidden
from penstock.server.http.request import (
    ApiRequest,
    bad_request,
    json_response,
    no_content,
    not_found,
    text,
)


async def queues(request: ApiRequest) -> Response:
    """List queues, all or of a virtual host."""
    return await listed_queues(request, request.vhost_or_all())


async def queue(request: ApiRequest) -> Response:
    """Show a queue."""
    return one(request, queue_in_full(request.queue(), reading_of(request)))


async def exchange(request: ApiRequest) -> Response:
    """Show an exchange."""
    return one(request, EXCHANGE_TABLE.row(request.exchange(), reading_of(request)))


async def bindings_of_queue(request: ApiRequest) -> Response:
    """List the bindings that lead to a queue."""
    return await listed(request, bindings_to(request.vhost(), request.queue(), None), as_bindings=True)


async def bindings_from_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead from an exchange."""
    source, vhost = request.exchange(), request.vhost()
    if source.name == "":
        items = await request.in_steps(collected_steps(request.driver, "queues", vhost))
    else:
        items = [Item(source.name, vhost, binding) for binding in source.bindings.values()]
    return await listed(request, items, as_bindings=True)


async def bindings_to_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead to an exchange."""
    return await listed(request, bindings_to(request.vhost(), None, request.exchange()), as_bindings=True)


async def bindings_between(request: ApiRequest) -> Response:
    """List the bindings from an exchange to a queue or exchange."""
    return await listed(request, _between(request), as_bindings=True)


def _between(request: ApiRequest) -> list[Item]:
    vhost, source = request.vhost(), request.exchange("source")
    origin, target = destination(vhost, request.part("kind"), request.part("destination"))
    if source.name == "":
        return [] if origin is None else [Item(origin.name, vhost, origin)]
    return [
        Item(source.name, vhost, each)
        for each in source.bindings.values()
        if each.queue is origin and each.exchange is target
    ]


REASON = "Closed via management plugin"
"""Default of X-Reason: RabbitMQ's text, which programs know."""


async def connection(request: ApiRequest) -> Response:
    """Show a connection."""
    connection = _connection(request)
    check_own(request, connection.user)
    return one(request, CONNECTION.row(connection, reading_of(request)))


async def close_connection(request: ApiRequest) -> Response:
    """Close a connection (320); the header X-Reason is sent to its client."""
    request.begin()
    connection = _connection(request)
    check_own(request, connection.user, ADMINISTRATOR)
    connection.close(ConnectionForced(_reason(request)))
    return no_content()


async def connections_of_user(request: ApiRequest) -> Response:
    """List the connections of a user."""
    check_own(request, request.part("user"))
    items = await collected(request, "connections", None)
    user = request.part("user")
    return await listed(request, [i for i in items if isinstance(i.subject, Connection) and i.subject.user == user])


async def close_connections_of_user(request: ApiRequest) -> Response:
    """Close all connections of a user."""
    check_own(request, request.part("user"), ADMINISTRATOR)
    request.begin()
    close_connections(request.driver, request.part("user"), None, _reason(request))
    return no_content()


async def channels_of_connection(request: ApiRequest) -> Response:
    """List the channels of a connection."""
    connection = _connection(request)
    check_own(request, connection.user)
    items = [Item(channel.name, connection.vhost, channel) for channel in connection.engine.sessions()]
    return await listed(request, items)


async def channel(request: ApiRequest) -> Response:
    """Show a channel."""
    for item in await collected(request, "channels", None):
        if item.name == request.part("name") and isinstance(item.subject, Session):
            return one(request, session_in_full(item.subject, reading_of(request)))
    raise found_or_hidden(request)


def _connection(request: ApiRequest) -> Connection:
    for connection in request.driver.connections.values():
        if connection.vhost is not None and connection.name() == request.part("name"):
            return connection
    raise found_or_hidden(request)


def _reason(request: ApiRequest) -> str:
    return request.http_request.headers.get("x-reason") or REASON


async def vhosts(request: ApiRequest) -> Response:
    """List virtual hosts."""
    return await listed(request, await collected(request, "vhosts", None))


async def vhost(request: ApiRequest) -> Response:
    """Show a virtual host."""
    return one(request, VHOST.row(request.live_vhost(), reading_of(request)))


async def whoami(request: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": request.user, "tags": request.rules.tags()})


async def user(request: ApiRequest) -> Response:
    """Show a user."""
    there = request.driver.broker.access.find(request.part("user"))
    if there is None:
        raise not_found()
    at = reading_of(request)
    row = USER.row(there, at)
    counted = request.driver.stats.users.get(request.part("user"))
    stats = None if counted is None else tally_stats(counted.tally, counted.series, at.ranges)
    if stats is not None:
        row["penstock"] = {**USER.own(there, at), "message_stats": stats}
    return json_response(row)


async def hash_given(fields: Row) -> None:
    """Replace the password in a body by its hash and keys. Raises HttpError (400) if there is a hash too."""
    if "password" in fields and "password_hash" in fields:
        raise bad_request("both_password_and_password_hash_are_provided")
    if not text(fields, "password"):
        return
    hashed, scram = await asyncio.to_thread(_derive, text(fields, "password"))
    fields["password_hash"], fields["hashing_algorithm"] = hashed.text(), hashed.algorithm
    if scram is not None:
        fields["scram_secret"] = scram_text(scram)


async def password_hash(request: ApiRequest) -> Response:
    """Return RabbitMQ's hash of the password in the path, for definitions."""
    return json_response({"ok": rabbitmq_hash(request.part("password"), os.urandom(RABBITMQ_SALT)).text()})


def _derive(password: str) -> tuple[PasswordHash, ScramKeys | None]:
    """Return hash and keys of a password: slow, in a thread."""
    return hash_password(password, os.urandom(SCRYPT_SALT)), derive_scram_keys(password, os.urandom(SALT))
