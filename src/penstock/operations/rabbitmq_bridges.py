"""Paths of RabbitMQ's plugins for shovels and federation: lists with its fields, deletion and restart.

RabbitMQ has three states of a shovel, which say whether its connections are open; `reason` has the rest.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from penstock.access.permission import MONITORING, POLICYMAKER
from penstock.connections.control_request import ControlRequest
from penstock.core.vhost import VirtualHost
from penstock.describe.bridges import RUNNING, STARTING, link_status, shovel_status
from penstock.describe.list_kinds import Groups, ListKind, of_vhosts
from penstock.describe.table import DescribedNode, Field, Reading, Row, Table
from penstock.describe.vhost import parameter_row
from penstock.errors import PreconditionFailed
from penstock.management import federation_links
from penstock.management.bridge_uris import hidden, read_uris
from penstock.management.bridges import FEDERATION, HELD, PAUSED, SHOVEL, UPSTREAM, Bridge
from penstock.management.node import Node
from penstock.management.operation import BY_VHOST, ROW_WORK, SEEN, VHOST, Operation, Route, entered, looking
from penstock.operations.bridges import bridges_of
from penstock.operations.lists import listing
from penstock.operations.parameters import drop_parameter, without_secrets
from penstock.operations.shovel_keys import AMQP091

BLOCKED: Final = "blocked"
RESUMED: Final = "paused; `penstock bridges resume {}` runs it"
UP: Final[tuple[str, ...]] = (RUNNING, STARTING)
"""Statuses of links that are not down."""
PLACES: Final[tuple[str, ...]] = ("queue", "exchange", "exchange-key", "address")
"""Ends of the keys that name the place of an end of a shovel."""


def _time(bridge: Bridge, at: Reading) -> str:
    """Return the time of the last report, or now before the first."""
    wall = (bridge.reported or at.now) + at.broker.wall_offset
    return datetime.fromtimestamp(max(wall, 0.0), UTC).strftime("%Y-%m-%d %H:%M:%S")


def _value(bridge: Bridge) -> Row:
    value = bridge.spec.get("value")
    return value if isinstance(value, dict) else {}


def _reason(bridge: Bridge) -> str:
    state, reason = bridge.state()
    return RESUMED.format(bridge.name) if state == PAUSED else reason


def _uri(given: object) -> str:
    try:
        return read_uris("", given)[0].text
    except PreconditionFailed:
        return ""


def shovel_row(bridge: Bridge, at: Reading) -> Row:
    """Return a shovel in RabbitMQ's form."""
    state = shovel_status(bridge.state()[0])
    row: Row = {"node": at.node.name, "timestamp": _time(bridge, at), "name": bridge.name, "vhost": bridge.vhost}
    row["type"], row["state"] = "dynamic", state
    if state == STARTING:
        return row
    if _reason(bridge):
        row["reason"] = _reason(bridge)
    if state == RUNNING:
        row["blocked_status"] = BLOCKED if bridge.state()[0] == HELD else RUNNING
        row["forwarded"] = bridge.count("carried")
    value = _value(bridge)
    for side in ("src", "dest"):
        row[f"{side}_uri"] = _uri(value.get(f"{side}-uri"))
        row[f"{side}_protocol"] = value.get(f"{side}-protocol", AMQP091)
        for place in PLACES:
            if f"{side}-{place}" in value:
                row[f"{side}_{place.replace('-', '_')}"] = value[f"{side}-{place}"]
    return row


def link_row(bridge: Bridge, at: Reading) -> Row:
    """Return a link of federation in RabbitMQ's form."""
    return federation_links.link_row({**bridge.row(), "reason": _reason(bridge)}, at.node.name)


def _link(bridge: Bridge) -> Row:
    link = bridge.spec.get("link")
    assert isinstance(link, dict)
    return link


def _shovels(node: DescribedNode, vhost: VirtualHost) -> list[Bridge]:
    return [each for each in bridges_of(node, vhost) if each.component == SHOVEL]


def _links(node: DescribedNode, vhost: VirtualHost) -> list[Bridge]:
    return [each for each in bridges_of(node, vhost) if each.component == FEDERATION and each.is_used]


def _down(node: Node, request: ControlRequest) -> Groups:
    hosts = [node.broker.vhosts[name] for name in entered(node, request)]
    for host in hosts:
        yield host, [each for each in _links(node, host) if link_status(each.state()[0]) not in UP]


def _shovel_groups(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    yield from of_vhosts(_shovels)(node, vhost)


def _link_groups(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    yield from of_vhosts(_links)(node, vhost)


def show_shovel(node: Node, request: ControlRequest) -> Row | None:
    """Return the parameter of a shovel; its URIs have neither user nor password, as in RabbitMQ 4.3."""
    parameter = node.broker.table.parameters.get(SHOVEL, request.vhost.name, request.text("name"))
    return None if parameter is None else parameter_row(without_secrets(parameter))


def delete_shovel(node: Node, request: ControlRequest) -> Row:
    """Delete a shovel with its parameter. Raises NotFound (404)."""
    drop_parameter(node, (SHOVEL, request.vhost.name, request.text("name")))
    return {}


def restart_shovel(node: Node, request: ControlRequest) -> Row | None:
    """End the connections of a shovel and begin anew; a paused one stays paused."""
    return {} if node.bridges.restart(SHOVEL, request.vhost.name, request.text("name")) else None


def restart_link(node: Node, request: ControlRequest) -> Row | None:
    """End the connection of the link with an id, and of all links of its upstream, and begin anew."""
    wanted, vhost = request.text("id"), request.vhost
    found = [each for each in _links(node, vhost) if _link(each)["id"] == wanted]
    if not found or request.text("node") != node.name:
        return None
    return {} if node.bridges.restart(UPSTREAM, vhost.name, found[0].name) else None


def _before(node: Node, request: ControlRequest) -> Row | None:
    parameter = node.broker.table.parameters.get(SHOVEL, request.vhost.name, request.text("name"))
    return None if parameter is None else {"value": hidden(parameter.value)}


SHOVELS: Final[ListKind] = ListKind(
    "shovels", _shovel_groups, Table(Field("shovel.*", shovel_row)), lambda bridge: str(bridge.name), by_name=True,
    tag=MONITORING, fifths=5 * ROW_WORK,
)  # fmt: skip
LINKS: Final[ListKind] = ListKind(
    "federation-links", _link_groups, Table(Field("link.*", link_row)), lambda bridge: str(_link(bridge)["resource"]),
    by_name=True, tag=MONITORING, fifths=5 * ROW_WORK, name_at=("queue", "exchange"),
)  # fmt: skip
ONE: Final = "/shovels/vhost/{vhost}/{name}"
LINK: Final = "/federation-links/vhost/{vhost}/{id}/{node}/restart"
OPERATIONS: Final[tuple[Operation, ...]] = (
    listing(SHOVELS, "GET /shovels /shovels/{vhost}", "List shovels, all or of a virtual host.", vhost=SEEN),
    looking("", show_shovel, tag=MONITORING, asks=VHOST, routes=(
        Route(f"GET {ONE}", "Show the parameter of a shovel, without users and passwords."),
    )),
    Operation("", delete_shovel, tag=POLICYMAKER, before=_before, asks=VHOST, routes=(
        Route(f"DELETE {ONE}", "Delete a shovel.", silent=True),
    )),
    Operation("", restart_shovel, tag=POLICYMAKER, asks=VHOST, routes=(
        Route(f"DELETE {ONE}/restart", "End the connections of a shovel and begin anew.", silent=True),
    )),
    listing(LINKS, "GET /federation-links /federation-links/{vhost}", "List the links of federation, all or of a "
            "virtual host.", vhost=SEEN),
    listing(LINKS, "GET /federation-links/state/down /federation-links/{vhost}/state/down", "List the links of "
            "federation that are down.", _down, vhost=SEEN, asks=BY_VHOST),
    Operation("", restart_link, tag=POLICYMAKER, asks=VHOST, routes=(
        Route(f"DELETE {LINK}", "End the connections of the links of an upstream and begin anew.", silent=True),
    )),
)  # fmt: skip
