"""Scrapes, read with the parsers of prometheus_client: a second opinion about every line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from penstock.describe.metrics import Scrape, Selection
from penstock.describe.node import NodeFigures
from penstock.driver.driver import BrokerDriver

Samples = dict[tuple[str, ...], float]
"""Values by the name of the sample and its labels, as `name=value` in the order of names."""


def samples_of(text: str, openmetrics: bool = False) -> Samples:
    """Read an answer; a sample that is there twice is an error."""
    parse: Callable[[str], Any] = parse_openmetrics if openmetrics else parse_text
    found: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def families_of(text: str) -> set[str]:
    """Return the names of all families, as the heads name them."""
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def scraped(driver: BrokerDriver, selection: Selection | None = None, openmetrics: bool = False) -> str:
    """Return a whole scrape: of `/metrics`, or with a selection object by object."""
    scrape = Scrape(driver, NodeFigures(), openmetrics)
    return "".join(scrape.aggregated() if selection is None else scrape.per_object(selection))
