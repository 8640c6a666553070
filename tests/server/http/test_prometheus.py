"""The deployed configuration, rules and board in a real Prometheus that scrapes a broker: each query has data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
import yaml

from bench.processes import free_port
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.raw_channel import Connection

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="there is no prometheus here (Debian has it)"
)


@contextmanager
def traffic(broker: BrokerProcess) -> Iterator[None]:
    """A blocked producer with a withheld confirmation, a reader that is behind, and losses."""
    with Connection(broker.url) as connection, connect(broker.url, protocol="amqp091") as control:
        channel = connection.channel()
        channel.queue_declare("full", durable=True, arguments={"capacity-messages": 10, "stop-messages": 3})
        channel.queue_declare("read", durable=True)
        control.attach_cursor("a query", ["read"])
        channel.confirm_select()
        for queue in ["read"] + ["full"] * 4:
            channel.publish(b"order", routing_key=queue)
        yield


@contextmanager
def prometheus(folder: Path, broker: BrokerProcess) -> Iterator[str]:
    """Run Prometheus with the configuration of the compose file, of which only addresses and times differ."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "docker" / "prometheus.yml").read_text())
    found["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    found["rule_files"] = [str(DEPLOY / "prometheus" / Path(path).name) for path in found["rule_files"]]
    for job in found["scrape_configs"]:
        job["static_configs"] = [{"targets": [urlsplit(broker.http).netloc]}]
        job["basic_auth"] = {"username": "guest", "password": "guest"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(found))
    address = f"127.0.0.1:{free_port()}"
    words = ["--config.file", str(folder / "prometheus.yml"), "--storage.tsdb.path", str(folder / "series")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["prometheus", *words, "--web.listen-address", address], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait()


def told(url: str) -> Any:
    """Return what Prometheus answers; None before it listens."""
    try:
        with urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"]
    except URLError:
        return None


def queries() -> dict[str, str]:
    """Return the queries of the board by panel, with Grafana's variables filled in as it does for all of everything."""
    board = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())
    found = {}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            query = re.sub(r"\$__rate_interval|\$__range", "1m", target["expr"])
            found[f"{panel['title']}: {target['expr']}"] = re.sub(r"\$\{?\w+\}?", ".*", query)
    return found


@pytest.mark.slow
def test_panels_have_data_and_rules_are_evaluated(tmp_path: Path, data: str) -> None:
    with (
        serving(tmp_path, "--http", "127.0.0.1:0", "--data", data) as broker,
        traffic(broker),
        prometheus(tmp_path, broker) as api,
    ):
        eventually(lambda: told(f"{api}/rules"), "Prometheus listens")
        for title, query in queries().items():
            eventually(lambda query=query: told(f"{api}/query?{urlencode({'query': query})}")["result"], title)

        def alerts(name: str) -> list[dict[str, Any]]:
            """Return the alerts of a rule once every rule is evaluated; an evaluation may have come before the data."""
            rules = [rule for group in told(f"{api}/rules")["groups"] for rule in group["rules"]]
            evaluated = all(rule["health"] == "ok" for rule in rules)
            return [alert for rule in rules if evaluated and rule["name"] == name for alert in rule["alerts"]]

        without_consumer = eventually(lambda: alerts("PenstockQueueWithoutConsumer"), "rules are evaluated")
        assert without_consumer[0]["labels"]["queue"] == "full"
        blocked = eventually(lambda: alerts("PenstockProducersBlocked"), "the alert of blocked producers")
        assert blocked[0]["state"] == "pending"
        targets = told(f"{api}/targets")["activeTargets"]
        assert [each["lastError"] for each in targets] == ["", ""]
