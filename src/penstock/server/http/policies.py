"""Handlers for policies, operator policies, parameters and global parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

from penstock.access.tags import ADMINISTRATOR
from penstock.core.settings.parameters import Parameter
from penstock.describe.user import parameter_row, policy_row
from penstock.management import parameters_api, policies_api
from penstock.server.http.request import ApiRequest, bad_request, json_response, no_content, not_found

Handler = Callable[[ApiRequest], Awaitable[Response]]
LIMITS: Final = "vhost-limits"
"""The component of RabbitMQ's limits of virtual hosts, which have paths of their own."""


def _asker(request: ApiRequest) -> str:
    return f"http, user '{request.user}'"


def _entered(request: ApiRequest) -> list[str]:
    """Return the virtual hosts that the user may enter; all for an administrator."""
    rules = request.rules
    everywhere = rules.has_tag(ADMINISTRATOR)
    return [name for name in request.driver.broker.vhosts if everywhere or rules.enters(name)]


def listing(operator: bool) -> Handler:
    """Return the handler that lists the policies of all virtual hosts or of one."""

    async def policies(request: ApiRequest) -> Response:
        """List policies, all or of a virtual host."""
        only = request.vhost_or_all()
        hosts = _entered(request) if only is None else [only.name]
        table = request.driver.broker.table.policies
        return json_response([policy_row(policy) for host in hosts for policy in table.of(host, operator)])

    return policies


def showing(operator: bool) -> Handler:
    """Return the handler that shows one policy."""

    async def policy(request: ApiRequest) -> Response:
        """Show a policy."""
        found = request.driver.broker.table.policies.get(request.vhost().name, request.part("name"), operator)
        if found is None:
            raise not_found()
        return json_response(policy_row(found))

    return policy


def setting(operator: bool) -> Handler:
    """Return the handler that sets a policy: 201 if it is new, 204 if it is changed."""

    async def set_policy(request: ApiRequest) -> Response:
        """Set a policy: 201 if it is new, 204 if it is changed."""
        fields = await request.fields("pattern", "definition")
        vhost, name = request.vhost().name, request.part("name")
        given = {key: value for key, value in fields.items() if key in policies_api.FIELDS}
        steps = policies_api.set_policy_steps(request.driver, vhost, name, given, operator, _asker(request))
        _, before, _ = await request.in_turn(steps)
        request.before = None if before is None else policy_row(before)
        return no_content(201 if before is None else 204)

    return set_policy


def clearing(operator: bool) -> Handler:
    """Return the handler that removes a policy."""

    async def clear_policy(request: ApiRequest) -> Response:
        """Remove a policy."""
        request.begin()
        vhost, name = request.vhost().name, request.part("name")
        there = request.driver.broker.table.policies.get(vhost, name, operator)
        if there is None:
            raise not_found()
        request.before = policy_row(there)
        await request.in_turn(policies_api.clear_steps(request.driver, vhost, name, operator, _asker(request)))
        return no_content()

    return clear_policy


async def parameters(request: ApiRequest) -> Response:
    """List parameters: all, those of a component, or those of a component in a virtual host."""
    parts = request.http_request.path_params
    component = request.part("component") if "component" in parts else None
    only = request.vhost_or_all()
    found = request.driver.broker.table.parameters.of(component, None if only is None else only.name)
    hosts = {*_entered(request)}
    return json_response([parameter_row(parameter) for parameter in found if parameter.vhost in hosts])


async def global_parameters(request: ApiRequest) -> Response:
    """List global parameters."""
    return json_response([parameter_row(each) for each in request.driver.broker.table.parameters.global_ones()])


def _named(request: ApiRequest) -> tuple[str, str, str]:
    """Return the component, virtual host and name in the path; the first two are empty for a global parameter."""
    if "component" not in request.http_request.path_params:
        return "", "", request.part("name")
    return request.part("component"), request.vhost().name, request.part("name")


async def parameter(request: ApiRequest) -> Response:
    """Show a parameter, or a global one."""
    component, vhost, name = _named(request)
    found = request.driver.broker.table.parameters.get(component, vhost, name)
    if found is None:
        raise not_found()
    return json_response(parameter_row(found))


async def set_parameter(request: ApiRequest) -> Response:
    """Set a parameter, which is kept without effect: 201 if it is new, 204 if it is changed."""
    fields = await request.fields("value")
    component, vhost, name = _named(request)
    if component in (LIMITS, "policy", "operator_policy"):
        raise bad_request(f"the component {component} has paths of its own: use those")
    before = parameters_api.set_parameter(request.driver, Parameter(component, vhost, name, fields["value"]))
    return no_content(201 if before is None else 204)


async def clear_parameter(request: ApiRequest) -> Response:
    """Remove a parameter."""
    request.begin()
    parameters_api.clear_parameter(request.driver.broker, *_named(request))
    return no_content()
