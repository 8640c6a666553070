"""The tables of docs/metrics.md, made from the families in the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.cluster.node_metrics import FAMILIES as OF_SHARDS
from penstock.describe import node
from penstock.describe.bridges import BRIDGE, LINKS, SHOVELS, STATES
from penstock.describe.exposition import Family
from penstock.describe.metrics import CHANNEL_FAMILIES, OMITTED
from penstock.describe.node import GATE_KINDS, NODE, SHARED_GATES
from penstock.describe.pools import HOLDER_FIGURES, POOL_FIGURES
from penstock.describe.queue import POSITION, QUEUE
from penstock.describe.reply_queues import REPLY_QUEUES
from penstock.describe.session import CONNECTION
from penstock.describe.vhost import EXCHANGE

LABELS = {
    "rabbitmq_identity_info": "rabbitmq_node, rabbitmq_cluster, rabbitmq_cluster_permanent_id",
    "rabbitmq_build_info": "rabbitmq_version, product_name, product_version, ...",
    "penstock_build_info": "version, python, compiled, build",
    "penstock_store_info": "kind",
    "penstock_tls_certificate_expiry_timestamp_seconds": "file, name",
}
"""Labels of families that have labels of their own."""


def node_level() -> list[Family]:
    """Return the families of `/metrics` that belong to no single object, in the order of the code."""
    several = [each for each in vars(node).values() if type(each) is Family]
    channels = {each.name for each in CHANNEL_FAMILIES}
    ours = [each for each in NODE.families if each.name not in channels]
    return [
        *several,
        *ours,
        *GATE_KINDS.families,
        *SHARED_GATES.families,
        *REPLY_QUEUES.families,
        *POOL_FIGURES.families,
        *HOLDER_FIGURES.families,
        *SHOVELS.families,
        *LINKS.families,
        *STATES.families,
        *BRIDGE.families,
    ]


def tables() -> dict[str, str]:
    """Return the tables by their names."""
    connections = [
        *_of_objects(CONNECTION.families, "vhost, connection"),
        "",
        *_of_objects(CHANNEL_FAMILIES, "vhost, channel"),
    ]
    lines = {
        "the node": _of_node(),
        "queues": _of_objects(QUEUE.families, "vhost, queue"),
        "exchanges": _of_objects(EXCHANGE.families, "vhost, exchange"),
        "connections and channels": connections,
        "cursors": _of_objects(POSITION.families, "vhost, cursor, queue"),
        "shards": _of_shards(),
    }
    return {f"metrics of {name}": "\n".join(each) for name, each in lines.items()}


def all_families() -> set[str]:
    """Return the names of all families, without those of the process."""
    found: list[Family] = [*node_level(), OMITTED]
    for families in (QUEUE, EXCHANGE, CONNECTION, POSITION):
        found += families.families
    return {each.name for each in (*found, *CHANNEL_FAMILIES)}


def _labels(family: Family) -> str:
    if family in GATE_KINDS.families:
        return "kind"
    if family in POOL_FIGURES.families:
        return "pool"
    if family in HOLDER_FIGURES.families:
        return "pool, user, vhost"
    if family in (*SHOVELS.families, *LINKS.families):
        return "status"
    if family in STATES.families:
        return "component, state"
    if family in BRIDGE.families:
        return "vhost, bridge, component"
    if family in SHARED_GATES.families:
        return "kind, vhost, gate"
    return LABELS.get(family.name, "")


def _of_node() -> Iterator[str]:
    yield "| family | labels | meaning |"
    yield "| --- | --- | --- |"
    for family in [*node_level(), OMITTED]:
        labels = "kind" if family is OMITTED else _labels(family)
        yield f"| `{family.name}` | {labels} | {_meaning(family)} |"


def _of_shards() -> Iterator[str]:
    yield "| family | labels | meaning |"
    yield "| --- | --- | --- |"
    for family in OF_SHARDS:
        yield f"| `{family.name}` | shard | {_meaning(family)} |"


def _of_objects(families: Sequence[Family], labels: str) -> Iterator[str]:
    yield f"Labels: {labels}."
    yield ""
    yield "| family | group | meaning |"
    yield "| --- | --- | --- |"
    for family in families:
        yield f"| `{family.name}` | `{family.group}` | {_meaning(family)} |"


def _meaning(family: Family) -> str:
    """Return the help of a family, with its type if the name does not tell it."""
    text = family.help.removeprefix("Total number of ")
    told = "counter" if family.name.endswith("_total") else "info" if family.name.endswith("_info") else "gauge"
    return text[:1].upper() + text[1:] + ("" if family.kind == told else f" ({family.kind})")
