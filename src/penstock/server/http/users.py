"""Handlers for users and passwords, in RabbitMQ's form."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from starlette.responses import Response

from penstock.access.password_hash import (
    RABBITMQ_SALT,
    SCRYPT_SALT,
    SHA256,
    PasswordHash,
    hash_password,
    rabbitmq_hash,
    read_hash,
)
from penstock.access.scram import SALT, ScramKeys, derive_scram_keys
from penstock.access.user import User
from penstock.describe.message_stats import tally_stats
from penstock.describe.table import Row
from penstock.describe.user import USER, user_row
from penstock.errors import BrokerError, PreconditionFailed
from penstock.management import access_admin
from penstock.server.http.listing import reading_of
from penstock.server.http.request import ApiRequest, bad_request, json_response, no_content, not_found, text

DELETED_A_TURN: Final = 100
"""Users that are deleted in one turn of the broker."""
SHOWN_A_TURN: Final = 500
"""Users that are formatted in one turn of the broker."""


async def whoami(request: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": request.user, "tags": request.rules.tags()})


async def users(request: ApiRequest) -> Response:
    """List users."""
    return json_response(await _rows(request, request.driver.broker.access.users()))


async def users_without_permissions(request: ApiRequest) -> Response:
    """List the users who may enter no virtual host."""
    found = [user for user in request.driver.broker.access.users() if not user.permissions and not user.everywhere]
    return json_response(await _rows(request, found))


async def user(request: ApiRequest) -> Response:
    """Show a user."""
    there = known_user(request)
    at = reading_of(request)
    found = USER.row(there, at)
    counted = request.driver.stats.users.get(request.part("user"))
    stats = None if counted is None else tally_stats(counted.tally, counted.series, at.ranges)
    if stats is not None:
        found["penstock"] = {**USER.own(there, at), "message_stats": stats}
    return json_response(found)


async def put_user(request: ApiRequest) -> Response:
    """Add a user, or change its password and tags: 201 if it is new, 204 if it was there."""
    fields, name = await request.fields("tags"), request.part("user")
    if "password" in fields and "password_hash" in fields:
        raise bad_request("both_password_and_password_hash_are_provided")
    hashed: PasswordHash | None = None
    scram: ScramKeys | None = None
    if text(fields, "password"):
        hashed, scram = await asyncio.to_thread(_derive, text(fields, "password"))
        request.begin()
    elif "password_hash" in fields:
        hashed = read_hash(text(fields, "password_hash"), text(fields, "hashing_algorithm", SHA256))
    table = request.driver.broker.access
    there = table.find(name)
    request.before = None if there is None else user_row(there)
    table.put_user(name, hashed, _tags(fields))
    if scram is not None:
        table.set_scram(name, scram)
    return no_content(201 if there is None else 204)


async def delete_user(request: ApiRequest) -> Response:
    """Delete a user, and close its connections."""
    request.begin()
    user = known_user(request)
    request.before = user_row(user)
    access_admin.delete_user(request.driver, user.name)
    return no_content()


async def delete_users(request: ApiRequest) -> Response:
    """Delete users; names that are not there are passed over (as in RabbitMQ).

    One that may not be deleted does not keep the others: the error names the first, and says how many are deleted.
    """
    fields = await request.fields("users")
    names = fields["users"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("'users' must be a list of names")
    refused: list[BrokerError] = []
    deleted = 0
    for index, name in enumerate(names):
        if index and index % DELETED_A_TURN == 0:
            await request.pause()
        request.begin()
        if request.driver.broker.access.find(name) is not None:
            try:
                access_admin.delete_user(request.driver, name)
                deleted += 1
            except BrokerError as error:
                refused.append(error)
    if refused:
        more = f", and {len(refused) - 1} more are refused" if len(refused) > 1 else ""
        raise PreconditionFailed(f"{refused[0]}{more}; {deleted} others are deleted")
    return no_content()


async def password_hash(request: ApiRequest) -> Response:
    """Return RabbitMQ's hash of the password in the path, for definitions."""
    return json_response({"ok": rabbitmq_hash(request.part("password"), os.urandom(RABBITMQ_SALT)).text()})


def known_user(request: ApiRequest) -> User:
    """Return the user that the path names. Raises HttpError (404)."""
    found = request.driver.broker.access.find(request.part("user"))
    if found is None:
        raise not_found()
    return found


def _derive(password: str) -> tuple[PasswordHash, ScramKeys | None]:
    """Return hash and keys of a password: slow, in a thread."""
    return hash_password(password, os.urandom(SCRYPT_SALT)), derive_scram_keys(password, os.urandom(SALT))


def _tags(fields: Row) -> list[str]:
    """Return tags from a list, or from a text with commas as RabbitMQ's tools send it. Raises HttpError (400)."""
    given = fields["tags"]
    if isinstance(given, str):
        return [tag for tag in (each.strip() for each in given.split(",")) if tag]
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise bad_request("'tags' must be a list of strings, or a string with commas")
    return given


async def _rows(request: ApiRequest, found: list[User]) -> list[Row]:
    rows: list[Row] = []
    for index, each in enumerate(found):
        if index and index % SHOWN_A_TURN == 0:
            await request.pause()
        rows.append(USER.row(each, reading_of(request)))
    return rows
