"""Both text formats, read with prometheus_client's parsers."""

from __future__ import annotations

import math

import pytest

from penstock.describe.exposition import HISTOGRAM, Exposition, Family, label, number
from penstock.flow.gate_stats import Histogram
from tests.support.metrics import samples_of


@pytest.mark.parametrize("openmetrics", [False, True])
def test_written_families_are_read_back_in_both_formats(openmetrics: bool) -> None:
    out = Exposition(openmetrics)
    out.single(Family("a_total", "Back\\slash and\nnew line"), 3)
    out.single(Family("b", "b"), 1.5, label("q", 'x"\\\n<b>é'))
    out.single(Family("c_info", "c"), 1, label("version", "1"))
    times = Histogram()
    for seconds in (0.00005, 0.3, 20.0):
        times.count(seconds)
    out.histogram(Family("d_seconds", "d", HISTOGRAM), times)
    out.end()
    found = samples_of(out.take(), openmetrics)
    assert found[("a_total",)] == 3
    assert found[("b", 'q=x"\\\n<b>é')] == 1.5
    assert found[("c_info", "version=1")] == 1
    assert found[("d_seconds_bucket", "le=0.0001")] == 1
    assert found[("d_seconds_bucket", "le=0.5")] == 2
    assert found[("d_seconds_count",)] == found[("d_seconds_bucket", "le=+Inf")] == 3
    assert found[("d_seconds_sum",)] == pytest.approx(20.30005)
    assert out.samples == 3 + 19


def test_heads_name_counters_as_each_format_does() -> None:
    heads = []
    for openmetrics in (False, True):
        out = Exposition(openmetrics)
        out.begin(Family("a_total", "a"))
        out.begin(Family("c_info", "c"))
        out.end()
        heads.append(out.take())
    assert "# TYPE a_total counter\n" in heads[0]
    assert "# TYPE c_info gauge\n" in heads[0]
    assert "# TYPE a counter\n" in heads[1]
    assert "# TYPE c info\n" in heads[1]
    assert heads[1].endswith("# EOF\n")
    assert "EOF" not in heads[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "1"), (7, "7"), (2.5, "2.5"), (math.inf, "+Inf"), (math.nan, "NaN"), (1 << 62, str(1 << 62))],
)
def test_numbers(value: object, text: str) -> None:
    assert number(value) == text
