"""Checks of the parameters of bridges: their keys, and whether the bridge may run as a user.

A definitions file brings bridges that are paused, so only their keys are checked. Whoever runs a bridge must be a user
of this broker that may enter the virtual hosts of the ends here: the worker logs in as that user.
"""

from __future__ import annotations

from penstock.access.rules import ConnectionAccess
from penstock.core.settings.table import Parameter
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed, ResourceError
from penstock.management.bridge_ends import SOURCE, TARGET, BridgeEnd, bridge_end, shovel_end
from penstock.management.bridges import BRIDGE, OWNED, RUNNING, SHOVEL, UPSTREAM, UPSTREAM_SET, holder_of, key_of
from penstock.management.node import Node
from penstock.operations import shovel_keys, upstreams
from penstock.operations.bridge_keys import check_bridge
from penstock.operations.shovel_keys import check_shovel
from penstock.operations.upstreams import check_upstream, check_upstream_set
from penstock.settings.pools import BRIDGES


def check_parameter(parameter: Parameter) -> None:
    """Check the value of a parameter of a bridge; others pass. Raises PreconditionFailed (406) with key and rule."""
    component, name, value = parameter.component, parameter.name, parameter.value
    if component == UPSTREAM:
        check_upstream(name, value)
    elif component == UPSTREAM_SET:
        check_upstream_set(name, value)
    elif component == SHOVEL:
        _check_ends(parameter, check_shovel(name, value))
    elif component == BRIDGE:
        _check_ends(parameter, check_bridge(name, value))


def check_runs(node: Node, parameter: Parameter, access: ConnectionAccess) -> None:
    """Check that the bridge of a checked parameter may run as a user.

    Raises PreconditionFailed (406), ResourceError (506) at the most bridges that a user or all may run.
    """
    component, user = parameter.component, access.user
    if component not in OWNED:
        return
    uris = [] if component == UPSTREAM else [uri for end in ends_of(parameter) for uri in end.uris]
    here = [uri.vhost for uri in uris if uri.is_here]
    if (here or component == UPSTREAM) and node.broker.access.find(user) is None:
        raise PreconditionFailed(
            f"{title_of(parameter)}: it would run as user '{user}', which is no user of this broker's table; "
            "a user with a password must set it"
        )
    for vhost in here:
        _check_enters(node, parameter, access, vhost)
    if component in RUNNING:
        running = key_of(*parameter.key()) in node.bridges.wanted()
        pool, holder = node.broker.pools.of(BRIDGES), holder_of(node.broker, parameter, user)
        if not running and not pool.fits(holder, 1):
            raise ResourceError(f"{pool.refusal(holder, 1)}. Pause a bridge; {title_of(parameter)} was not set")


def _check_enters(node: Node, parameter: Parameter, access: ConnectionAccess, vhost: str) -> None:
    """Check that a user may enter a virtual host of this broker. Raises PreconditionFailed (406)."""
    enters, is_here = access.rules.enters(vhost), vhost in node.broker.vhosts
    if enters and not is_here and node.control.elsewhere is not None:
        raise PreconditionFailed(
            f"{title_of(parameter)}: vhost '{vhost}' is not in the shard of vhost '{parameter.vhost}': give the "
            "address of this node, a user and a password in the URL"
        )
    if not enters or not is_here:
        raise PreconditionFailed(f"{title_of(parameter)}: user '{access.user}' may not enter vhost '{vhost}'")


def title_of(parameter: Parameter) -> str:
    """Return component and name of a bridge, for sentences."""
    return f"{parameter.component} '{parameter.name}' in vhost '{parameter.vhost}'"


def ends_of(parameter: Parameter) -> tuple[BridgeEnd, BridgeEnd]:
    """Return source and target of a checked shovel or bridge."""
    value = parameter.value
    assert isinstance(value, dict)
    end = shovel_end if parameter.component == SHOVEL else bridge_end
    return end(value, SOURCE), end(value, TARGET)


def idle_keys(parameter: Parameter) -> list[str]:
    """Return a sentence for each key of the parameter of a bridge that has no effect here."""
    if parameter.component == SHOVEL:
        return shovel_keys.idle_keys(parameter.value)
    return upstreams.idle_keys(parameter.value) if parameter.component in (UPSTREAM, UPSTREAM_SET) else []


def _check_ends(parameter: Parameter, value: Row) -> None:
    source, target = ends_of(parameter)
    if source.is_same(target):
        raise PreconditionFailed(f"{title_of(parameter)}: {source.title()} would be carried onto itself")
