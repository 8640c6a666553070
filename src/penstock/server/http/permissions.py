"""Handlers for permissions, topic permissions and limits, in RabbitMQ's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from penstock.access.permission import Permission, TopicPermission
from penstock.access.tags import MONITORING
from penstock.access.user import MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES, User
from penstock.describe.table import Row
from penstock.describe.user import permission_row, topics_of
from penstock.management import access_admin
from penstock.management.access_api import permission_view, topics_view
from penstock.server.http.request import ApiRequest, bad_request, json_response, no_content, not_found, text
from penstock.server.http.users import known_user

SHOWN_A_TURN: Final = 500
"""Permissions that are formatted in one turn of the broker."""


async def permissions(request: ApiRequest) -> Response:
    """List permissions: all, or those of a virtual host or of a user."""
    vhost = request.vhost_or_all()
    shapes: list[Row] = []
    for number, user in enumerate(_asked_users(request)):
        if number and number % SHOWN_A_TURN == 0:
            await request.pause()
        if vhost is not None:
            names = [vhost.name]
        else:
            names = list(request.driver.broker.vhosts) if user.everywhere else list(user.permissions)
        found = [_permission(user, name) for name in names]
        shapes += [shape for shape in found if shape is not None]
    return json_response(shapes)


async def permission(request: ApiRequest) -> Response:
    """Show the permission of a user in a virtual host."""
    shape = _permission(known_user(request), _vhost(request))
    if shape is None:
        raise not_found()
    return json_response(shape)


async def put_permission(request: ApiRequest) -> Response:
    """Set the permission of a user in a virtual host: 201 if it is new, 204 if it was there."""
    fields = await request.fields("configure", "write", "read")
    user, vhost = known_user(request), _vhost(request)
    there = vhost in user.permissions
    request.before = permission_view(user, vhost)
    given = Permission(text(fields, "configure"), text(fields, "write"), text(fields, "read"))
    request.driver.broker.access.set_permission(user.name, vhost, given)
    return no_content(204 if there else 201)


async def delete_permission(request: ApiRequest) -> Response:
    """Remove the permission of a user in a virtual host, and close its connections there."""
    request.begin()
    user, vhost = known_user(request), _vhost(request)
    request.before = permission_view(user, vhost)
    if not access_admin.clear_permission(request.driver, user.name, vhost):
        raise not_found()
    return no_content()


# Topic permissions


async def topic_permissions(request: ApiRequest) -> Response:
    """List topic permissions: all, or those of a virtual host, of a user, or of a user in a virtual host."""
    vhost = request.vhost_or_all()
    shapes: list[Row] = []
    for number, user in enumerate(_asked_users(request)):
        if number and number % SHOWN_A_TURN == 0:
            await request.pause()
        topics = topics_of(user, None if vhost is None else vhost.name)
        shapes += [{"user": user.name, **topic} for topic in topics]
    return json_response(shapes)


async def put_topic_permission(request: ApiRequest) -> Response:
    """Set the topic permission of a user for an exchange: 201 if it is new, 204 if it was there."""
    fields = await request.fields("exchange", "write", "read")
    user, vhost, exchange = known_user(request), _vhost(request), text(fields, "exchange")
    there = exchange in user.topic_permissions.get(vhost, {})
    request.before = topics_view(user, vhost, exchange)
    given = TopicPermission(text(fields, "write"), text(fields, "read"))
    request.driver.broker.access.set_topic_permission(user.name, vhost, exchange, given)
    return no_content(204 if there else 201)


async def delete_topic_permissions(request: ApiRequest) -> Response:
    """Remove all topic permissions of a user in a virtual host, or that for the `exchange` of the query."""
    request.begin()
    user, vhost, exchange = known_user(request), _vhost(request), request.query.get("exchange")
    request.before = topics_view(user, vhost, exchange)
    if not request.driver.broker.access.clear_topic_permissions(user.name, vhost, exchange):
        raise not_found()
    return no_content()


# Limits


async def user_limits(request: ApiRequest) -> Response:
    """List the limits of all users, or of one, with what is used of them."""
    shapes: list[Row] = []
    for number, user in enumerate(_asked_users(request)):
        if number and number % SHOWN_A_TURN == 0:
            await request.pause()
        if user.limits:
            shapes.append({"user": user.name, "value": dict(user.limits), **_used_by_user(request, user)})
    return json_response(shapes)


def _used_by_user(request: ApiRequest, user: User) -> Row:
    """Return what a user uses of its limits; nothing for those who may not see its connections."""
    if user.name != request.user and not request.rules.has_tag(MONITORING):
        return {}
    connections = request.driver.services.open_connections
    counts = {MAX_CONNECTIONS: connections.connections_of, MAX_CHANNELS: connections.channels_of}
    return {"penstock": {"used": {limit: counts[limit](user.name) for limit in user.limits}}}


async def put_user_limit(request: ApiRequest) -> Response:
    """Set a limit of a user; a negative value removes it."""
    limits = await _limit(request)
    user = known_user(request)
    request.before = dict(user.limits)
    request.driver.broker.access.set_user_limits(user.name, limits)
    return no_content()


async def delete_user_limit(request: ApiRequest) -> Response:
    """Remove a limit of a user."""
    request.begin()
    user = known_user(request)
    request.before = dict(user.limits)
    request.driver.broker.access.set_user_limits(user.name, {request.part("name"): -1})
    return no_content()


async def vhost_limits(request: ApiRequest) -> Response:
    """List the limits of all virtual hosts, or of one, with what is used of them."""
    vhost = request.vhost_or_all()
    limits = request.driver.broker.access.vhost_limits
    if vhost is None:
        everywhere = request.rules.has_tag(MONITORING)
        names = [name for name in limits if everywhere or request.rules.enters(name)]
    else:
        names = [vhost.name] if vhost.name in limits else []
    shapes: list[Row] = [
        {"vhost": name, "value": dict(limits[name]), **_used_in_vhost(request, name, limits[name])} for name in names
    ]
    return json_response(shapes)


def _used_in_vhost(request: ApiRequest, name: str, limits: Mapping[str, int]) -> Row:
    """Return what is used of the limits of a virtual host; nothing for those who may not see all connections."""
    if not request.rules.has_tag(MONITORING):
        return {}
    vhost = request.driver.broker.vhosts.get(name)
    queues = 0 if vhost is None else vhost.limited_queues()
    counts = {MAX_CONNECTIONS: request.driver.services.open_connections.connections_to(name), MAX_QUEUES: queues}
    return {"penstock": {"used": {limit: counts[limit] for limit in limits}}}


async def put_vhost_limit(request: ApiRequest) -> Response:
    """Set a limit of a virtual host; a negative value removes it."""
    limits = await _limit(request)
    request.before = dict(request.driver.broker.access.vhost_limits.get(_vhost(request), {}))
    request.driver.broker.access.set_vhost_limits(_vhost(request), limits)
    return no_content()


async def delete_vhost_limit(request: ApiRequest) -> Response:
    """Remove a limit of a virtual host."""
    request.begin()
    request.before = dict(request.driver.broker.access.vhost_limits.get(_vhost(request), {}))
    request.driver.broker.access.set_vhost_limits(_vhost(request), {request.part("name"): -1})
    return no_content()


async def _limit(request: ApiRequest) -> dict[str, int]:
    fields = await request.fields("value")
    value = fields["value"]
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request("'value' must be a whole number; a negative one removes the limit")
    return {request.part("name"): value}


def _asked_users(request: ApiRequest) -> list[User]:
    if "user" in request.http_request.path_params:
        return [known_user(request)]
    return request.driver.broker.access.users()


def _vhost(request: ApiRequest) -> str:
    vhost = request.vhost_or_all()
    return "/" if vhost is None else vhost.name


def _permission(user: User, vhost: str) -> Row | None:
    permission = user.permission(vhost)
    return None if permission is None else {"user": user.name, "vhost": vhost, **permission_row(permission)}
