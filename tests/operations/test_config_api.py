"""Configuration in effect: every setting of every scope that is set, with its source."""

from __future__ import annotations

from typing import Any

from penstock.flow.work import finish
from penstock.operations.settings import config_steps
from penstock.settings.read import read_settings
from penstock.settings.table import SCOPES
from tests.support import at_once
from tests.support.driven_connection import make_driver


def test_configuration_names_the_line_of_the_file_or_the_change_at_run_time() -> None:
    driver = make_driver()
    told = driver.start_settings
    told.file = "/etc/p.toml"
    told.rows = [{"setting": "listen", "value": [], "default": [], "from": "default"}]
    given = read_settings("queue", "a.#", {"capacity-bytes": "1MiB"})
    lines = {name: word.at(" line 8") for name, word in given.items()}
    of_broker = {name: word.at(" line 3") for name, word in read_settings("broker", "", {"stop-percent": 60}).items()}
    at_once.replace_file(driver.broker, [("queue", "a.#", lines), ("broker", "", of_broker)])
    at_once.set_named(driver.broker, "queue", "a.#", stop_percent=70)
    at_once.set_named(driver.broker, "broker", "", hold_deadline=9)
    found: dict[str, Any] = finish(config_steps(driver))
    assert found["file"] == "/etc/p.toml"
    assert found["start"] == told.rows
    assert [(row["setting"], row["value"], row["from"]) for row in found["patterns"]] == [
        ("capacity-bytes", "1MiB", "/etc/p.toml:8"),
        ("stop-percent", 70, "run-time change"),
    ]
    broker = {row["setting"]: row for row in found["broker"]}
    assert list(broker) == list(SCOPES["broker"])
    assert broker["stop-percent"]["from"] == "/etc/p.toml:3"
    assert broker["hold-deadline"]["from"] == "run-time change"
    assert broker["resume-percent"] == {"setting": "resume-percent", "value": 70, "from": "default"}
