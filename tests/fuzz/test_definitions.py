"""Malformed definitions: an import applies all of them or nothing, and raises one sentence.

PENSTOCK_FUZZ_DEFINITIONS sets the number of files (1,000,000 at night), PENSTOCK_FUZZ_SEED the seed.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.flow.work import finish
from penstock.operations.definitions_export import SECTIONS
from penstock.operations.definitions_import import ImportOptions, import_steps, rows
from tests.profiles import thorough
from tests.support.driven_connection import make_driver
from tests.support.exports import exported
from tests.support.fuzzed_broker import SEED

A_NIGHT = 1_000_000
A_BROKER = 200
"""Files that one broker is given."""
RECORDED = Path(__file__).parents[1] / "compat" / "rabbitmq_definitions.json"
ODD: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, 1.5, -0.0, 1e300, "", "/", "eu", "q", "x" * 300, "\x00", "ö"),
    *("(", "^(?!a).*", "a**", "[", "\\", "(a{900}){9}", "none", "all", "queues", "exchanges", "-1", "64MiB"),
    *([], {}, [[]], [["max-length", 5]], {"max-length": 5}, {"expires": -1}, {"alternate-exchange": 3}, {"": None}),
    *({"x-queue-type": "stream"}, {"x-max-length": "5"}, {"x-overflow": "page"}, {"overflow": "none"}, "headers"),
    *("operator_policy", "vhost-limits", "shovel", "quorum", {"a": {"b": [1, None]}}, {"capacity-messages": 0}),
)
WORDS = ("name", "vhost", "pattern", "definition", "priority", "apply-to", "component", "value", "arguments", "type",
         "source", "destination", "destination_type", "routing_key", "scope", "settings", "durable", "odd")  # fmt: skip


class Files:
    """Nearly right files, made of one that RabbitMQ has exported."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)
        recorded: dict[str, Any] = json.loads(RECORDED.read_text())
        self.entries = {section: value for section, value in recorded.items() if isinstance(value, list)}
        self.entries["settings"] = [{"scope": "queue", "pattern": "q.#", "settings": {"hold-deadline": 7}}]

    def one(self) -> bytes:
        """Return a file: some entries of some sections, some of them changed, and at times cut or spoilt."""
        chance = self.chance
        file: dict[str, object] = {}
        for section, entries in self.entries.items():
            if section in ("vhosts", "exchanges", "queues") or chance.random() < 0.5:
                count = len(entries) if chance.random() < 0.8 else chance.randrange(len(entries) + 1)
                chosen = chance.sample(entries, count)
                file[section] = [self._changed(entry) for entry in chosen]
        if chance.random() < 0.05:
            file[chance.choice((*self.entries, "odd"))] = chance.choice(ODD)
        text = json.dumps(file, ensure_ascii=chance.random() < 0.5).encode()
        if chance.random() < 0.1:
            at = chance.randrange(len(text))
            text = text[:at] + bytes([chance.randrange(256)]) * chance.randrange(3) + text[at + chance.randrange(3) :]
        return text

    def _changed(self, entry: Any) -> Any:
        if self.chance.random() < 0.96:
            return entry
        if self.chance.random() < 0.05:
            return self.chance.choice(ODD)
        found = dict(entry)
        if found and self.chance.random() < 0.2:
            del found[self.chance.choice(list(found))]
        name = self.chance.choice([*found, *WORDS])
        inner = found.get(name)
        if isinstance(inner, dict) and self.chance.random() < 0.7:
            key = self.chance.choice([*inner, "max-length", "x-max-length", "overflow", "odd"])
            found[name] = {**inner, key: self.chance.choice(ODD)}
        else:
            found[name] = self.chance.choice(ODD)
        return found


def everything(driver: BrokerDriver) -> str:
    """Return everything that is defined."""
    return json.dumps([exported(driver, section) for section in SECTIONS], sort_keys=True)


def attempt(driver: BrokerDriver, text: bytes, options: ImportOptions, dry_run: bool) -> Any:
    """Import a file; return the answer, or the sentence of a refusal."""
    try:
        return finish(import_steps(driver, text, "/", options, dry_run))
    except BrokerError as error:
        return str(error)


def outcome(answer: dict[str, Any]) -> tuple[dict[str, int], dict[str, int], list[tuple[Any, ...]]]:
    """Return the numbers of created and changed entries, and what was skipped, of an import or of a dry run."""
    skipped = answer.get("skipped")
    if skipped is not None:
        counts = answer["made"], answer["changed"]
    else:
        found = answer["differences"]
        skipped = [each for each in found if each["change"] == "skipped"]
        created, changed = (
            Counter(each["kind"] for each in found if each["change"] == change) for change in ("created", "changed")
        )
        counts = dict(created), dict(changed)
    return *counts, [(each["line"], each["kind"], each["subject"], each["reason"]) for each in skipped]


def number_of_files() -> int:
    """Return how many files are tried."""
    return int(os.environ.get("PENSTOCK_FUZZ_DEFINITIONS", str(A_NIGHT if thorough() else 400)))


@pytest.mark.timeout(0)
def test_definitions_are_imported_whole_or_refused_in_a_sentence() -> None:
    files, count = Files(), number_of_files()
    accepted = refused = 0
    driver, before = make_driver(), ""
    for number in range(count):
        if number % A_BROKER == 0:
            driver = make_driver()
            driver.broker.access.set_tags("guest", ["administrator"])  # A change of any user stores guest as well.
            before = everything(driver)
        text = files.one()
        skip = files.chance.sample([row.section.name for row in rows(False)], 2) if files.chance.random() < 0.1 else []
        options = ImportOptions(skip, files.chance.random() < 0.5, files.chance.random() < 0.5)
        told = attempt(driver, text, options, True)
        assert everything(driver) == before, (number, "a dry run changes nothing", text)
        answer = attempt(driver, text, options, False)
        after = everything(driver)
        if isinstance(answer, str):
            refused += 1
            is_told = isinstance(told, str) or "refused" in [each["change"] for each in told["differences"]]
            assert is_told, (number, "a dry run refuses what an import refuses", answer, text)
            assert after == before, (number, answer, text)
            assert "\n" not in answer
        else:
            accepted += 1
            assert not isinstance(told, str)
            assert "refused" not in [each["change"] for each in told["differences"]], (number, told, text)
            for one, other in zip(outcome(told), outcome(answer), strict=True):
                assert one == other, (number, "a dry run tells what an import does", text)
            changed = sum([*answer["made"].values(), *answer["changed"].values()])
            assert changed or after == before, (number, "no change is uncounted", answer, text)
            again = attempt(driver, text, options, True)
            left = [each for each in again["differences"] if each["change"] != "skipped"]
            assert left == [], (number, again, text)
        before = after
    assert min(accepted, refused) > count // 10
