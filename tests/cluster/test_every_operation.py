"""Each operation, asked for in a virtual host of each shard: a node answers as one broker with the same content.

The two are asked for all operations in the same order, reading ones first and deletions last, by an administrator and
by a user who may look. Most requests of a change are made twice, so that both see what the first has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

from penstock.cluster.asking import Peer
from penstock.connections.control_request import IMPORT
from penstock.describe.table import Row
from penstock.errors import BrokerError
from penstock.management.operation import LOOKS, VHOST, Operation, name_of, who_answers
from penstock.operations.table import OPERATIONS
from penstock.server.asker import Asker
from penstock.server.inside import Ask
from penstock.server.shard import Allowance
from penstock.settings.config import Settings
from tests.cluster.test_parent import Node
from tests.support.halves import comparable, differences
from tests.support.inside_node import peer_at, serving

VHOSTS: Final = ("/", "west")
SHOVEL: Final = {"src-queue": "orders", "dest-uri": "amqp://u:p@elsewhere.invalid", "dest-queue": "q"}
CONTENT: Final[Row] = {
    "vhosts": [{"name": vhost} for vhost in VHOSTS],
    "users": [{"name": "app", "password_hash": "", "tags": "monitoring"}],
    "permissions": [{"user": "app", "vhost": vhost, "configure": "", "write": "", "read": ".*"} for vhost in VHOSTS],
    "global_parameters": [{"name": "g1", "value": 1}],
    "settings": [{"scope": "queue", "pattern": "spare", "settings": {"capacity-messages": 5}}],
    "policies": [{"vhost": vhost, "name": "orders", "pattern": "^b", "definition": {"max-length": 7}}
                 for vhost in VHOSTS],
    "parameters": [{"component": "vhost-limits", "vhost": "west", "name": "limits", "value": {"max-queues": 100}},
                   *({"component": "shovel", "vhost": vhost, "name": "orders",
                      "value": {**SHOVEL, "src-uri": f"amqp:///{vhost.replace('/', '%2f')}"}} for vhost in VHOSTS)],
    "exchanges": [{"vhost": vhost, "name": "x0", "type": "topic", "durable": True} for vhost in VHOSTS],
    "queues": [{"vhost": vhost, "name": name, "durable": True}
               for number, vhost in enumerate(VHOSTS) for name in ("orders", "bills", f"own{number}")],
    "bindings": [{"vhost": vhost, "source": "x0", "destination": "orders", "destination_type": "queue",
                  "routing_key": "k"} for vhost in VHOSTS],
}  # fmt: skip
FIELDS: Final[Row] = {
    "name": "orders", "queue": "orders", "user": "app", "kind": "queues", "source": "x0", "destination": "orders",
    "key": "k", "component": "shovel", "exchange": "x0", "cursor": "c", "connection": "none", "channel": "none",
    "order": "blocked", "node": "penstock@elsewhere", "everywhere": True, "q": "o", "reason": "night",
}  # fmt: skip
"""Values of fields, for each operation that has them."""
OWN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("uptime", "uptime_s", "timestamp", "end", "rate", "turns", "run_queue", "proc_used"), "times"),
    **dict.fromkeys(
        ("disk", "store", "mem_used", "stop", "capacity", "used", "free", "value"), "amounts of the machine"
    ),
    "id": "numbers of jobs",
    "number": "numbers of leases and connections",
    "next": "numbers of records, of each shard",
    "limit": "each process has the whole of a pool",
    "build": "the form of the sources",
    "erlang_full_version": "it is set by the program",
}
"""Fields that are each process's own, each with the reason."""
NOT_COMPARED: Final[Mapping[str, str]] = {
    "publish.block": "its body is no object, and no process asks another for it",
    **dict.fromkeys(("cluster.status", "cluster.restart"), "a broker without shards refuses them"),
    "GET /penstock/settings/catalogue": "the program sets the settings of the start",
    **dict.fromkeys(
        ("GET /penstock/history", "GET /penstock/history/{vhost}", "GET /penstock/history/{vhost}/{name}"),
        "each process has samples since its own start",
    ),
    "config.show": "patterns that were set by command are in the shards",
    "GET /nodes": "facts of the node's own process",
    "GET /nodes/{name}": "facts of the node's own process",
    "GET /penstock/resources": "amounts of the node's own process",
    "job.list": "an import is a job of the node and one of each shard",
    "GET /penstock/jobs": "an import is a job of the node and one of each shard",
}
"""Operations that are not compared, each with the reason."""


def fields_of(row: Operation, vhost: str) -> Row:
    """Return a request with values for all fields that an operation has."""
    parts = {part[1:-1] for route in row.routes for path in route.paths for part in path.split("/") if part[:1] == "{"}
    names = {*row.fields, *parts, *(name for route in row.routes for name in route.query)}
    given = {**FIELDS, "vhost": vhost}
    return {name: given[name] for name in sorted(names) if name in given}


async def tried(peer: Peer, row: Operation, fields: Row, asker: Asker) -> Any:
    vhost = asker.vhost if row.name or who_answers(row, fields) == VHOST else ""
    try:
        answer: object = await peer.ask(Ask(name_of(row), fields, vhost), asker, silence_s=60.0)
    except BrokerError as error:
        answer = f"{int(error.code)} {error}"
    return comparable(answer, OWN)


async def test_node_answers_each_operation_as_one_broker_does(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    settings = Settings(data=str(tmp_path / "plain"))
    compared = [row for row in OPERATIONS if name_of(row) not in NOT_COMPARED]
    rows = sorted(compared, key=lambda row: (row.how != LOOKS, "delete" in name_of(row).lower(), row.name == IMPORT))
    found: dict[str, list[str]] = {}
    with Node(tmp_path / "node", silence_s=60.0).begin() as node:
        inside = peer_at(node.inside["name"], node.inside["secret"])
        async with (
            serving(settings=settings, machine=Allowance(1 << 30, 4_096)) as (_, name),
            peer_at(name) as plain,
            inside as many,
        ):
            for peer in (plain, many):
                request = {"definitions": json.dumps(CONTENT), "everywhere": True}
                made: Any = await peer.ask(Ask(IMPORT, request, "/"), asker_in("/", "guest"))
                assert made["made"]["queues"] == 6
            for row in rows:
                for vhost, user in product(VHOSTS, ("guest", "app")):
                    asker = asker_in(vhost, user)
                    for fields in (fields_of(row, vhost), {}):
                        one, other = [await tried(each, row, fields, asker) for each in (plain, many)]
                        if differ := differences(one, other):
                            found.setdefault(f"{name_of(row)} in {vhost} by {user} with {fields}", []).extend(differ)
    assert found == {}


def asker_in(vhost: str, user: str) -> Asker:
    return Asker(user=user, vhost=vhost, protocol="AMQP 0-9-1", connection="0", shard="none", label="con:0")
