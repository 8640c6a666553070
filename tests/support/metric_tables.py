"""The tables of docs/metrics.md, made from the families in the code.

`PYTHONPATH=src python -m tests.support.metric_tables` writes them into the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.management.metrics import (
    client_families,
    cursor_families,
    message_families,
    node_families,
    queue_families,
)
from penstock.management.metrics.client_families import ChannelFamily, ConnectionFamily
from penstock.management.metrics.cursor_families import CURSORS, CursorFamily
from penstock.management.metrics.exposition import Family
from penstock.management.metrics.message_families import EXCHANGES, ExchangeFamily, TallyFamily
from penstock.management.metrics.queue_families import QueueFamily
from penstock.management.metrics.scrape import OMITTED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
BEGIN, END = "<!-- table of {} -->", "<!-- end of table -->"
GROUPED = (QueueFamily, ConnectionFamily, ChannelFamily, TallyFamily)
OTHERS: dict[type[Family], str] = {CursorFamily: CURSORS, ExchangeFamily: EXCHANGES}
"""Groups of families that have no group of their own."""
LABELS = {
    "rabbitmq_identity_info": "rabbitmq_node, rabbitmq_cluster, rabbitmq_cluster_permanent_id",
    "rabbitmq_build_info": "rabbitmq_version, product_name, product_version, ...",
    "penstock_build_info": "version, python, compiled",
    "penstock_store_info": "kind",
    "penstock_tls_certificate_expiry_timestamp_seconds": "file, name",
}
"""Labels of families that have labels of their own."""
BY_KIND = {
    "penstock_gates_closed", "penstock_gate_crossings_total", "penstock_gate_closed_seconds_total",
    "penstock_blocked_producers", "penstock_producer_blocks_total", "penstock_producers_blocked_seconds_total",
}  # fmt: skip


def node_level() -> list[Family]:
    """Return the families of `/metrics` that belong to no single object, in the order of the code."""
    modules = (node_families, message_families)
    single = [each for module in modules for each in vars(module).values() if type(each) is Family]
    return [*message_families.GLOBAL_COUNTS, *single]


def tables() -> dict[str, list[str]]:
    """Return the lines of each table by its name."""
    return {
        "the node": list(_of_node()),
        "queues": list(_of_objects(queue_families.FAMILIES + message_families.QUEUE_COUNTS, "vhost, queue")),
        "exchanges": list(_of_objects(message_families.EXCHANGE_COUNTS, "vhost, exchange")),
        "connections and channels": [
            *_of_objects(client_families.CONNECTION_FAMILIES, "vhost, connection"),
            *list(_of_objects(client_families.CHANNEL_FAMILIES, "vhost, channel"))[2:],
            *list(_of_objects(message_families.CHANNEL_COUNTS, "vhost, channel"))[2:],
        ],
        "cursors": list(_of_objects(cursor_families.CURSOR_FAMILIES, "vhost, cursor, queue")),
    }


def all_families() -> set[str]:
    """Return the names of all families, without those of the process."""
    found: list[Family] = [*node_level(), OMITTED]
    found += queue_families.FAMILIES + message_families.QUEUE_COUNTS
    found += client_families.CONNECTION_FAMILIES
    found += client_families.CHANNEL_FAMILIES
    found += message_families.CHANNEL_COUNTS + message_families.EXCHANGE_COUNTS
    found += cursor_families.CURSOR_FAMILIES
    return {each.name for each in found}


def _labels(family: Family) -> str:
    if family.name in BY_KIND:
        return "kind"
    if family.name.startswith("penstock_gate_"):
        return "kind, vhost, gate"
    return LABELS.get(family.name, "")


def _of_node() -> Iterator[str]:
    yield "| family | type | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for family in [*node_level(), OMITTED]:
        labels = "kind" if family is OMITTED else _labels(family)
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def _of_objects(families: Sequence[Family], labels: str) -> Iterator[str]:
    yield "| family | type | group | labels | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for family in families:
        group = family.group if isinstance(family, GROUPED) else OTHERS[type(family)]
        yield f"| `{family.name}` | {family.kind} | `{group}` | {labels} | {family.help} |"


def with_tables(page: str) -> str:
    """Return a page with its tables made anew."""
    for name, lines in tables().items():
        head, begin, rest = page.partition(BEGIN.format(name))
        assert begin, f"the page has no table of {name}"
        page = f"{head}{begin}\n\n" + "\n".join(lines) + f"\n\n{END}" + rest.partition(END)[2]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
