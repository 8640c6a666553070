"""Handlers about the user of a request and its password, and the finder of connections for paths of HTTP alone."""

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
from penstock.access.permission import MONITORING
from penstock.connections.connection import Connection
from penstock.connections.connection_names import connection_named
from penstock.describe.message_stats import SampleRange, SampleRanges
from penstock.describe.table import Reading, Row, reading
from penstock.errors import NotFound
from penstock.server.http.lists import sample_fields
from penstock.server.http.login import found_or_hidden
from penstock.server.http.request import ApiRequest, bad_request, json_response, text


def reading_of(request: ApiRequest) -> Reading:
    """Return a reading of the broker now, with the samples that the query asks for."""
    return reading(request.driver, sample_ranges(request))


def sample_ranges(request: ApiRequest) -> SampleRanges | None:
    """Return the samples that the query asks for, by RabbitMQ's parameters; None for none."""
    fields = sample_fields(request)
    if not fields:
        return None
    rates, lengths = (_range(fields.get(name)) for name in ("rates", "lengths"))
    return SampleRanges(rates, lengths, request.driver.broker.wall_offset)


def _range(given: object) -> SampleRange | None:
    return SampleRange(*given) if isinstance(given, list) else None


def connection_of(request: ApiRequest) -> Connection:
    """Return the connection of a path, which any of its names may name (connections/connection_names.py)."""
    try:
        connection = connection_named(request.driver.connections, request.part("name"), _owner(request))
    except NotFound:
        raise found_or_hidden(request) from None
    if connection.vhost is None:
        raise found_or_hidden(request)
    return connection


def _owner(request: ApiRequest) -> str:
    """Return the user that the connections of a path must have; empty for any."""
    return "" if request.rules.has_tag(MONITORING) else request.user


async def whoami(request: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": request.user, "tags": request.rules.tags()})


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
