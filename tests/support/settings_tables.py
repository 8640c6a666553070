"""The tables of docs/settings.md: start-up settings and settings by pattern, as the code has them.

The meaning of a start-up setting is the docstring of
its attribute in `penstock.settings.start.Start`.
"""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise
from pathlib import Path

from penstock.cli.serve import serve
from penstock.management.effective_settings import queue_settings, scope_settings
from penstock.settings import start
from penstock.settings.config import variable_of
from penstock.settings.kind import NAMED_MOST, Number
from penstock.settings.start import AT_START, DEFAULTS, RULES
from penstock.settings.table import ALL_ALIASES, SCOPES, SETTINGS
from tests.support.driven_connection import Dialogue, make_driver

LINKS: dict[str, dict[str, str]] = {
    "listen-tls": {"TLS": "tls.md"},
    "http": {"the console": "console.md", "HTTP API": "http.md"},
    "http-hosts": {"HTTP API": "http.md#browsers"},
    "http-tls": {"TLS": "tls.md"},
    "metrics-listen": {"metrics and probes": "metrics.md#an-address-without-a-login"},
    "metrics-objects-max": {"`/metrics/per-object`": "metrics.md"},
    "data": {"Data directory": "durability.md"},
    "store": {"`postgresql://HOST/DATABASE`": "postgres.md"},
    "flow-enforcement-s": {"`channel.flow`": "inside/flow-control.md#channelflow"},
    "min-large-message": {"in pieces": "inside/flow-control.md#large-messages"},
    "initial-frame-max": {"before the login": "inside/access.md#before-the-login"},
    "sasl-mechanisms": {"offered to clients": "users.md#mechanisms"},
    "rabbitmq-version": {"its AMQP 1.0 clients": "clients.md#rabbitmqs-clients-of-amqp-10"},
    "login-rate-max": {"Logins a second": "users.md#logins-a-second"},
    "flow-log": {"flow log": "flow-log.md"},
    "audit-log": {"audit log": "audit-log.md"},
    "log-level": {"the log": "logs.md"},
    "log-format": {"the log": "logs.md"},
    "slow-turn-ms": {"logged": "logs.md"},
    "latency-target-ms": {"one wake-up": "inside/benchmarks.md#processor-time-of-the-broker"},
    "traces-endpoint": {"spans of waiting publishes": "traces.md"},
    "overflow": {"what happens at the capacity": "overflow.md"},
    "page-limit-bytes": {"most bytes of them": "overflow.md#paging"},
    "dead-letter-exchange": {"dead letters": "overflow.md#dead-letters"},
    "consumer-window-adaptive": {"the window follows": "flow-control.md#adaptive-windows"},
}
"""Words of the meanings that link to a page."""


EXAMPLE = re.compile(r", `\d+[a-zA-Z]+`")
"""Value with a unit, which the page explains once for all rows."""


def docstrings() -> dict[str, str]:
    """Return the docstrings of the attributes of `Start`, each on one line."""
    assert start.__file__ is not None
    tree = ast.parse(Path(start.__file__).read_text())
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Start").body
    found = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(field.target, ast.Name):
            found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def linked(name: str, meaning: str) -> str:
    """Return a meaning with its links, and as the cell of a table."""
    for words, page in LINKS.get(name, {}).items():
        assert words in meaning, f"{name}: its meaning has no '{words}' to link"
        meaning = meaning.replace(words, f"[{words}]({page})", 1)
    first = next((at for at, letter in enumerate(meaning) if letter.isalpha()), 0)
    if meaning[first:].split()[0][1:].islower() or meaning[first + 1] == " ":
        meaning = meaning[:first] + meaning[first].lower() + meaning[first + 1 :]
    return meaning.removesuffix(".").replace("|", "\\|")


def start_table() -> str:
    """Return the table of the start-up settings."""
    options = {option for each in serve.params for option in each.opts}
    texts, default = docstrings(), DEFAULTS
    lines = ["| setting | option | default | from, to | meaning |", "|---|---|---|---|---|"]
    for attribute in AT_START:
        name = attribute.replace("_", "-")
        value = getattr(default, attribute)
        shown = "none" if value is None else f"`{json.dumps(value)}`" if not isinstance(value, int) else str(value)
        option = f"`--{name}`" if f"--{name}" in options else ""
        kind = RULES[attribute].kind
        bounds = f"{kind.least}, {kind.most}" if isinstance(kind, Number) and kind.most < NAMED_MOST else ""
        cells = (f"`{name}`", option, shown, bounds, linked(name, texts[attribute]))
        lines.append("| " + " | ".join(cells).replace("|  |", "| |").replace("|  |", "| |") + " |")
    return "\n".join(lines) + "\n"


def defaults() -> dict[str, object]:
    """Return the default of each setting by pattern; a rule is a text in parentheses."""
    driver = make_driver()
    Dialogue(driver).declare("q")
    broker = driver.broker
    found: dict[str, object] = {}
    others = [scope for scope in SCOPES if scope != "queue"]
    of_scopes = [scope_settings(broker, scope, "/" if scope == "vhost" else "") for scope in others]
    for row in (*queue_settings(broker, broker.vhosts["/"].queues["q"]), *(row for rows in of_scopes for row in rows)):
        name, rule = str(row["setting"]), str(row["from"])
        value = "none" if row["value"] is None else json.dumps(row["value"]).strip('"').removesuffix(".0")
        if name.startswith("memory-"):
            value = {"capacity": "40 % of the machine", "stop": "80 % of it", "resume": "70 % of it"}[name[7:]]
        elif "% of the capacity" in rule:
            value = rule.partition(", ")[0]
        found.setdefault(name, value)
    return found


def pattern_table() -> str:
    """Return the table of the settings by pattern."""
    known = defaults()
    lines = ["| setting | scopes | values | default | other names | meaning |", "|---|---|---|---|---|---|"]
    for setting in SETTINGS:
        name = setting.name
        scopes = [scope for scope in setting.scopes.split() if scope in SCOPES]
        others = [alias.name for alias in ALL_ALIASES if alias.ours == name]
        cells = (
            f"`{name}`",
            ", ".join(scopes),
            EXAMPLE.sub("", setting.kind.values),
            str(known.get(name, "none")),
            ", ".join(f"`{each}`" for each in others),
            linked(name, setting.meaning),
        )
        lines.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(lines) + "\n"


def tables() -> dict[str, str]:
    """Return both tables by their names."""
    return {"start-up settings": start_table(), "settings by pattern": pattern_table()}


def variables() -> list[str]:
    """Return the environment variables of the start-up settings."""
    return [variable_of(name) for name in AT_START]
