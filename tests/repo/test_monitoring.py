"""The rules and the board in the repository: promtool accepts them, and every metric that they name is in a scrape."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import Broker
from penstock.cluster.node_metrics import FAMILIES as OF_SHARDS
from penstock.core.settings.table import Parameter
from penstock.settings.config import Settings
from tests.support.http_client import Web
from tests.support.metric_tables import all_families
from tests.support.metrics import families_of

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "penstock-rules.yml"
CASES = ROOT / "deploy" / "prometheus" / "penstock-cases.yml"
BOARD = ROOT / "deploy" / "grafana" / "penstock.json"
NAME = re.compile(r"\b(?:penstock|rabbitmq|process|python)_\w+")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)


def promtool(*words: str) -> str:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=120, cwd=CASES.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_rules_are_accepted_and_raise_their_alerts() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert "SUCCESS" in promtool("test", "rules", str(CASES))


def board() -> Any:
    return json.loads(BOARD.read_text())


def expressions() -> list[str]:
    """All queries of the rules and of the board."""
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in board()["panels"] for target in panel.get("targets", [])]
    variables = [each["definition"] for each in board()["templating"]["list"] if "definition" in each]
    return rules + panels + variables


def named(text: str) -> set[str]:
    """The families that a query names: a histogram by the name of the whole, RabbitMQ's detailed ones by the other."""
    text = text.replace("rabbitmq(_detailed)?_", "rabbitmq_")
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAME.findall(text)}


async def test_metrics_of_rules_and_dashboard_are_in_a_scrape(tmp_path: Path) -> None:
    settings = Settings(metrics_listen="127.0.0.1:0")
    async with Broker(listen="127.0.0.1:0", data=tmp_path, settings=settings) as broker:
        broker.driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)
        broker.driver.broker.table.parameters.put(Parameter("shovel", "/", "s", {}))
        web = Web("http://{}:{}".format(*broker.metrics_addresses[0]))
        pages = [await asyncio.to_thread(web.fetch, path, login=False) for path in ("/metrics", "/metrics/per-object")]
    found = set().union(*(families_of(page.text) for page in pages))
    wanted = set().union(*(named(each) for each in expressions()))
    assert len(wanted) > 30
    assert wanted - found == {each.name for each in OF_SHARDS if each.name in wanted}  # A node has them.
    assert all_families() - found == set()


def test_alerts_have_a_severity_a_summary_and_a_description() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["labels"]["severity"] in ("critical", "warning", "info")
                assert {"summary", "description"} == rule["annotations"].keys()


def test_panels_of_the_dashboard_do_not_overlap_and_have_a_title_and_a_query() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["title"]
        assert panel["type"] == "row" or all(target["expr"] for target in panel["targets"])
    ids = [panel["id"] for panel in board()["panels"]]
    assert len(set(ids)) == len(ids)
    assert board()["uid"] == "penstock"
