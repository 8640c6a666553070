"""Handlers for the operator: blocks, and settings with their sources, changes and previews."""

from __future__ import annotations

from starlette.responses import Response

from penstock.describe.table import Row
from penstock.flow.work import Steps
from penstock.management import operator_api, settings_api
from penstock.management.control_request import ControlRequest
from penstock.management.settings_api import preview_steps
from penstock.server.http.request import ApiRequest, json_response


async def block(request: ApiRequest) -> Response:
    """Close the operator's gate of a queue, address, virtual host, user or connection, as `penstock block`."""
    control = await _control(request)
    return json_response(operator_api.block(request.driver, control))


async def unblock(request: ApiRequest) -> Response:
    """Open it."""
    control = await _control(request)
    return json_response(operator_api.unblock(request.driver, control))


async def settings(request: ApiRequest) -> Response:
    """List the settings of all patterns; with `scope` and `name`, those in effect there, with their sources."""
    scope = request.query.get("scope")
    if scope is None:
        return json_response(await request.in_steps(settings_api.list_settings(request.driver, request.control({}))))
    shown = settings_api.show(request.driver, request.control({scope: request.query.get("name", "")}))
    return json_response(shown)


async def set_settings(request: ApiRequest) -> Response:
    """Set settings of a pattern: `scope`, `pattern`, `settings`, `override`, as `penstock set`."""
    control = await _control(request)
    answer = await request.in_turn(settings_api.set_settings(request.driver, control))
    request.before = control.before
    return json_response(answer)


async def unset_settings(request: ApiRequest) -> Response:
    """Remove settings of a pattern: `scope`, `pattern`, `names`, as `penstock unset`."""
    control = await _control(request)
    answer = await request.in_turn(settings_api.unset_settings(request.driver, control))
    request.before = control.before
    return json_response(answer)


async def preview(request: ApiRequest) -> Response:
    """Tell what settings would do to a queue: `queue`, `settings`, `override`. Nothing is changed."""
    control = await _control(request)
    steps: Steps[Row] = preview_steps(request.driver, control)
    return json_response(await request.in_steps(steps))


async def _control(request: ApiRequest) -> ControlRequest:
    return request.control(await request.fields())
