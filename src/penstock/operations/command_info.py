"""The table of commands that show one object on one screen: state, why, settings, and who is attached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from penstock.operations.command import BROKER, VHOST, Answer, Command, Field, Given, Item, setting_value
from penstock.texts import counted, road_text, rounded_bytes, shown_age, shown_capacity, shown_percent

LABEL_CELLS: Final = 12
"""Width of the labels."""
LINES_MOST: Final = 4
"""Most lines of one label, so that an object fits on a screen of 24 lines; the others are counted."""
DEFAULT: Final = "default"
"""Origin of a setting that nobody has set."""


def _labelled(label: str, lines: Iterable[str], more: int = 0, most: int = LINES_MOST) -> Iterator[str]:
    """Yield lines with their label before the first; beyond `most`, and `more` of the broker, are counted."""
    found = list(lines)
    rest = max(len(found) - most, 0) + more
    found = found[:most]
    if rest:
        found.append(f"and {rest:,} more")
    for number, line in enumerate(found):
        yield f"{label if number == 0 else '':<{LABEL_CELLS}}{line}"


def _settings(rows: list[Item], show: str) -> Iterator[str]:
    """Yield the settings that somebody has set, each with its source; `show` is the command that has all."""
    given = [row for row in rows if row.get("origin", DEFAULT) != DEFAULT and row.get("value") is not None]
    lines = [f"{row['setting']} {setting_value(row)} ({row['from']})" for row in given]
    yield from _labelled("settings", lines or [f"all by default; `{show}` shows these"])


FLAGS: Final = {"auto_delete": "auto-delete", "exclusive": "exclusive", "internal": "internal"}


def _flags(row: Item) -> str:
    words = [str(row["type"]), "durable" if row["durable"] else "transient"]
    return ", ".join([*words, *(word for name, word in FLAGS.items() if row.get(name))])


def _rate(value: float) -> str:
    return f"{value:,.1f}/s"


LOSSES: Final = {
    "dropped": "dropped",
    "expired": "expired",
    "refused": "refused",
    "dead_lettered": "dead-lettered",
}


def _queue(given: Given, answer: Answer) -> Iterable[str]:
    row = answer["row"]
    own = row["penstock"]
    policy = f", policy {row['policy']}" if row.get("policy") else ""
    yield f"queue {answer['name']} in virtual host {answer['vhost']}: {_flags(row)}{policy}"
    road = own["road"]
    closed = "" if road["open"] else f" for {shown_age(road['closed_for_s'])}"
    yield from _labelled("gate", [f"{road_text(road)}{closed}, {counted(road['blocked'], 'producer')} blocked"])
    depth = f"{counted(row['messages'], 'message')}: {row['messages_ready']:,} ready, "
    depth += f"{row['messages_unacknowledged']:,} unacknowledged"
    if row["messages_paged_out"]:
        depth += f", {row['messages_paged_out']:,} on the disk"
    depth += f"; {rounded_bytes(own['depth']['bytes'])}"
    capacity = shown_capacity(own["capacity"])
    if own["fill_percent"] is not None:
        capacity = f"{shown_percent(own['fill_percent'])} of {capacity}"
    yield from _labelled("depth", [depth, f"{capacity}; overflow {own['overflow']}"])
    yield from _labelled("oldest", [shown_age(own["oldest_s"])])
    rates = f"in {_rate(own['rates']['publish'])}, out {_rate(own['rates']['deliver_get'])}"
    lost = [f", {own[name]:,} {word}" for name, word in LOSSES.items() if own[name]]
    yield from _labelled("rates", [rates + "".join(lost)])
    yield from _labelled("why", answer["sentences"])
    yield from _settings(answer["settings"], f"penstock queues show {answer['name']}")
    yield from _labelled("consumers", map(_consumer, answer["consumers"]) if answer["consumers"] else ["none"],
                         answer["more_consumers"])  # fmt: skip
    yield from _senders(answer)
    yield from _labelled("bindings", _bound(answer["bindings"], "source") or ["only to the default exchange"],
                         answer["more_bindings"])  # fmt: skip


def _senders(answer: Answer) -> Iterator[str]:
    """Yield the senders of AMQP 1.0; channels of AMQP 0-9-1 are attached to no queue."""
    blocked = [f"{each['producer']} (blocked)" for each in answer.get("blocked", ())]
    if answer["senders"] or blocked:
        names = [name for name in answer["senders"] if f"{name} (blocked)" not in blocked]
        yield from _labelled("producers", [*blocked, *names], answer["more_senders"])


def _bound(bindings: list[Item], end: str) -> list[str]:
    """Return bindings by their other end, key and arguments."""
    return [
        f"{each[end]}{' by ' + repr(each['routing_key']) if each['routing_key'] else ''}"
        + (f" {each['arguments']}" if each["arguments"] else "")
        for each in bindings
    ]


def _consumer(item: Item) -> str:
    prefetch = "" if item["prefetch"] is None else f" of a prefetch of {item['prefetch']:,}"
    browses = ", browses" if item["browses"] else ""
    waits = f"; {'; '.join(item['obstacles'])}" if item["obstacles"] else ""
    return (
        f"{item['consumer']} on {item['channel']}: {item['unacknowledged']:,} unacknowledged{prefetch}{browses}{waits}"
    )


def _exchange(given: Given, answer: Answer) -> Iterable[str]:
    row = answer["row"]
    policy = f", policy {row['policy']}" if row.get("policy") else ""
    yield f"exchange {answer['name']} in virtual host {answer['vhost']}: {_flags(row)}{policy}"
    stats = row.get("message_stats", {})
    rates = [_rate((stats.get(f"{name}_details") or {}).get("rate", 0.0)) for name in ("publish_in", "publish_out")]
    yield from _labelled("rates", [f"in {rates[0]}, out {rates[1]}"])
    if answer["alternate"]:
        yield from _labelled("alternate", [f"{answer['alternate']} gets messages without a route"])
    yield from _labelled("why", answer["sentences"] or ["no gate of the exchange is closed"])
    yield from _settings(answer["settings"], f"penstock exchanges show {answer['name']}")
    bindings = _bound(answer["bindings"], "destination") or ["each queue by its name" if row["name"] == "" else "none"]
    yield from _labelled("bindings", bindings, answer["more_bindings"])
    if answer["sources"]:
        yield from _labelled("sources", _bound(answer["sources"], "source"), answer["more_sources"])
    yield from _senders(answer)


def _connection(given: Given, answer: Answer) -> Iterable[str]:
    row = answer["row"]
    client = row["client_properties"]
    product = " ".join(str(client[name]) for name in ("product", "version") if client.get(name))
    yield f"connection {row['penstock']['label']}: {row['protocol']}, {row['state']}"
    yield from _labelled("user", [f"{row['user']} in virtual host {row['vhost']}"])
    yield from _labelled("client", [f"{product or 'unknown'} at {row['peer_host']}:{row['peer_port']}"])
    rates = [f"{rounded_bytes(row[f'{name}_details']['rate'])}/s" for name in ("recv_oct", "send_oct")]
    yield from _labelled("rates", [f"in {rates[0]}, out {rates[1]}"])
    held = row["penstock"]["held"]["messages"]
    if held:
        yield from _labelled("held", [f"{counted(held, 'publish') if held == 1 else f'{held:,} publishes'}"])
    yield from _labelled("why", answer["sentences"])
    yield from _settings(answer["settings"], f"penstock connections show {answer['name']}")
    yield from _labelled("channels", map(_channel, answer["channels"]) if answer["channels"] else ["none"],
                         answer["more_channels"])  # fmt: skip


def _channel(item: Item) -> str:
    consumers = len(item["consumers"]) + item["more_consumers"]
    publishing: dict[str, Any] | None = item["publishing"]
    held = 0 if publishing is None else publishing["held"]["messages"]
    words = f"{item['channel']}: {counted(consumers, 'consumer')}, {item['unacknowledged']:,} unacknowledged"
    return words + (f", {held:,} held" if held else "")


def _user(given: Given, answer: Answer) -> Iterable[str]:
    account = answer["account"]
    if account is None:
        yield f"user {answer['name']}"
    else:
        yield f"user {answer['name']}: {', '.join(account['tags']) or 'no tags'}"
        permissions = [
            f"{each['vhost']}: configure '{each['configure']}', write '{each['write']}', read '{each['read']}'"
            for each in account["permissions"]
        ]
        everything = ["everything, in all virtual hosts"] if account["everywhere"] else ["none"]
        yield from _labelled("permissions", permissions or everything)
        limits = [f"{name}={value}" for name, value in account["limits"].items()]
        yield from _labelled("limits", [", ".join(limits) or "none"])
    yield from _labelled("why", answer["sentences"] or [f"user {answer['name']} has no connection"])
    yield from _settings(answer["settings"], f"penstock users show {answer['name']}")
    connections = [f"{each['label']}: {each['protocol']}, {each['state']}" for each in answer["connections"]]
    yield from _labelled("connections", connections or ["none"], answer["more_connections"])


def _info(noun: str, subject: str, example: str, text: str, says: Any, where: str) -> Command:
    return Command(
        f"{noun} info", "info",
        f"Show {subject} NAME on one screen: {text}.\n\n--json has the whole answer. For example: penstock {noun} info "
        f"{example}",
        (Field(subject, metavar="NAME", names=noun),), says, where=where,
    )  # fmt: skip


OF_QUEUE: Final = "gate, depth, age, rates, settings that were set, consumers and bindings"
OF_EXCHANGE: Final = "rates, closed gates, settings that were set and bindings"
OF_CONNECTION: Final = "user, client, why it waits, settings that were set and channels"
OF_USER: Final = "permissions, limits, settings that were set and connections"
INFOS: Final[tuple[Command, ...]] = (
    _info("queues", "queue", "orders", OF_QUEUE, _queue, VHOST),
    _info("exchanges", "exchange", "logs", OF_EXCHANGE, _exchange, VHOST),
    _info("connections", "connection", "con:2", OF_CONNECTION, _connection, BROKER),
    _info("users", "user", "anna", OF_USER, _user, BROKER),
)
