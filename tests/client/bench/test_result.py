"""Results of runs: JSON, comparison, plot."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from penstock.client.bench import result
from penstock.client.bench.target import BenchError, Target

TARGET = Target("amqp://", {"product": "Penstock", "version": "1"}, "amqp10")


def found(bench: str = "latency", **figures: object) -> dict[str, Any]:
    return result.result(bench, TARGET, [{"case": "100 B", **figures}], {})


def test_result_is_read_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(found(rate=5)))
    assert result.read(path)["rows"] == [{"case": "100 B", "rate": 5}]
    assert result.read(path)["broker"] == {"product": "Penstock", "version": "1", "protocol": "amqp10"}


@pytest.mark.parametrize(("text", "problem"), [("{", "is not JSON"), ("[]", "is not a result of")])
def test_file_without_a_result_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=problem):
        result.read(path)
    with pytest.raises(BenchError, match="cannot read"):
        result.read(tmp_path / "none.json")


def test_comparison_has_the_change_of_each_figure_with_the_same_case() -> None:
    rows = result.compare(found(rate=100, told="x", zero=0), found(rate=150, told="y", zero=1))
    assert [(row["figure"], row["a"], row["b"], row["change"]) for row in rows] == [
        ("rate", 100, 150, "+50.0%"),
        ("told", "x", "y", "differs"),
        ("zero", 0, 1, None),
    ]


def test_results_without_anything_in_common_are_not_compared() -> None:
    with pytest.raises(BenchError, match="a result of `latency` and one of `soak`"):
        result.compare(found(rate=1), found("soak", rate=1))
    with pytest.raises(BenchError, match="no case in common"):
        result.compare(found(rate=1), {**found(rate=1), "rows": []})


def test_columns_are_in_the_order_of_the_first_use() -> None:
    assert result.columns([{"case": 1, "b": 2}, {"case": 1, "a": 3}]) == ["case", "b", "a"]


def test_plot_has_the_lines_with_the_unit_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    lines = {"a ms": [(1.0, 2.0), (2.0, None), (3.0, 4.0)], "b/s": [(1.0, 2.0)], "c ms": [(1.0, 1.0)], "d ms": []}
    result.plot(path, "a run", lines)
    drawn = path.read_text()
    ElementTree.fromstring(drawn)
    assert drawn.count("<polyline") == 2
    assert "milliseconds" in drawn
    with pytest.raises(BenchError, match="no lines to plot"):
        result.plot(path, "a run", {})
    with pytest.raises(BenchError, match="cannot write"):
        result.plot(tmp_path / "none" / "run.svg", "a run", lines)
