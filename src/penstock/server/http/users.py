"""Handlers for users and their permissions, in RabbitMQ's form."""

from __future__ import annotations

from starlette.responses import Response

from penstock.access.password_hash import PLAIN
from penstock.access.user import User
from penstock.management.rabbitmq_json import Shape
from penstock.server.http.request import ApiRequest, json_response, not_found


async def whoami(request: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": request.user, "tags": request.rules.tags()})


async def users(request: ApiRequest) -> Response:
    """List users."""
    return json_response([_shape(user) for user in request.driver.broker.access.users()])


async def user(request: ApiRequest) -> Response:
    """Show a user."""
    return json_response(_shape(_known(request)))


async def permissions(request: ApiRequest) -> Response:
    """List permissions, all, of a virtual host or of a user."""
    vhost = request.vhost_or_all()
    one_user = "user" in request.http_request.path_params
    found = [_known(request)] if one_user else request.driver.broker.access.users()
    vhosts = list(request.driver.broker.vhosts) if vhost is None else [vhost.name]
    shapes = [_permission(each, name) for each in found for name in vhosts]
    return json_response([shape for shape in shapes if shape is not None])


async def permission(request: ApiRequest) -> Response:
    """Show a user's permission in a virtual host."""
    vhost = request.vhost_or_all()
    shape = _permission(_known(request), "/" if vhost is None else vhost.name)
    if shape is None:
        raise not_found()
    return json_response(shape)


def _known(request: ApiRequest) -> User:
    found = request.driver.broker.access.find(request.part("user"))
    if found is None:
        raise not_found()
    return found


def _shape(user: User) -> Shape:
    found: Shape = {"name": user.name, "tags": user.tags, "limits": user.limits}
    if user.password_hash is not None and user.password_hash.algorithm != PLAIN:
        found["password_hash"] = user.password_hash.text()
        found["hashing_algorithm"] = user.password_hash.algorithm
    return found


def _permission(user: User, vhost: str) -> Shape | None:
    permission = user.permission(vhost)
    if permission is None:
        return None
    texts = {"configure": permission.configure, "write": permission.write, "read": permission.read}
    return {"user": user.name, "vhost": vhost, **texts}
