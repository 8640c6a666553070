"""Text formats of metrics: Prometheus' (0.0.4) and OpenMetrics 1.0, which differ only in heads and in the end.

A library creates an object for each sample, which for ten thousand queues would take seconds. Tests read the output
with the library's parsers.
"""

from __future__ import annotations

from typing import Final

from penstock.flow.gate_stats import BOUNDS_S, Histogram

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
INFO: Final = "info"
TOTAL: Final = "_total"
INFO_END: Final = "_info"


class Family:
    """Family of metrics: all samples of a name."""

    def __init__(self, name: str, help: str, kind: str = "", group: str = "") -> None:
        self.name = name
        """Name of the samples: a counter's ends with `_total`, an info's with `_info`."""
        self.kind = kind or (COUNTER if name.endswith(TOTAL) else INFO if name.endswith(INFO_END) else GAUGE)
        self.help = help
        """One sentence about the meaning and the unit."""
        self.group = group
        """Group of `/metrics/detailed?family=`; empty for families of the node."""

    def base(self) -> str:
        """Return the name in OpenMetrics, which omits the suffix of a counter or an info."""
        if self.kind == COUNTER:
            return self.name.removesuffix(TOTAL)
        return self.name.removesuffix(INFO_END) if self.kind == INFO else self.name


class Exposition:
    """Writer of one answer; its owner takes the written text from time to time."""

    def __init__(self, openmetrics: bool) -> None:
        self._openmetrics = openmetrics
        self._lines: list[str] = []
        self.samples: int = 0
        """Number of all samples written."""

    def begin(self, family: Family) -> None:
        """Begin a family: only its samples follow."""
        if self._openmetrics:
            name, kind = family.base(), family.kind
        else:
            name, kind = family.name, GAUGE if family.kind == INFO else family.kind
        self._lines.append(f"# HELP {name} {_escaped_help(family.help)}\n# TYPE {name} {kind}\n")

    def add(self, name: str, labels: str, value: object) -> None:
        """Write a sample; `labels` are the results of `labels_of`, joined by commas."""
        self.samples += 1
        if labels:
            self._lines.append(f"{name}{{{labels}}} {number(value)}\n")
        else:
            self._lines.append(f"{name} {number(value)}\n")

    def single(self, family: Family, value: object, labels: str = "") -> None:
        """Write a family that has one sample, or is one histogram."""
        if isinstance(value, Histogram):
            self.histogram(family, value)
            return
        self.begin(family)
        self.add(family.name, labels, value)

    def histogram(self, family: Family, histogram: Histogram) -> None:
        """Write a family that is one histogram."""
        self.begin(family)
        sums = histogram.cumulative()
        for index in range(len(BOUNDS_S)):
            self.add(f"{family.name}_bucket", f'le="{number(BOUNDS_S[index])}"', sums[index])
        self.add(f"{family.name}_bucket", 'le="+Inf"', sums[-1])
        self.add(f"{family.name}_count", "", sums[-1])
        self.add(f"{family.name}_sum", "", histogram.sum_s)

    def end(self) -> None:
        """Write the end."""
        if self._openmetrics:
            self._lines.append("# EOF\n")

    def take(self) -> str:
        """Take the text written so far."""
        text = "".join(self._lines)
        self._lines = []
        return text


def number(value: object) -> str:
    """Return a number in the form of both formats."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if text == "inf":
        return "+Inf"
    return "NaN" if text == "nan" else text


def label(name: str, value: str) -> str:
    """Return a label with its value; a backslash, a quote and a new line are escaped."""
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{value}"'


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
