"""From single tests to the table: a row for each suite, and what differs between the brokers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Outcome:
    """What became of one test on one broker."""

    suite: str
    broker: str
    test: str
    outcome: str
    why: str = ""

    def as_line(self) -> str:
        """Return the outcome as a line of JSON."""
        return json.dumps(asdict(self))


def read(suite: str, broker: str, file: Path) -> list[Outcome]:
    """Read what a suite has written (compat/reporting.py): the worst that is said of a test counts."""
    order = (PASSED, SKIPPED, FAILED)
    found: dict[str, Outcome] = {}
    for line in file.read_text().splitlines():
        said = json.loads(line)
        one = Outcome(suite, broker, said["test"], said["outcome"], said.get("why", ""))
        before = found.get(one.test)
        if before is None or order.index(one.outcome) > order.index(before.outcome):
            found[one.test] = one
    return list(found.values())


@dataclass(frozen=True)
class Difference:
    """A test that ends otherwise on ours than on RabbitMQ, or fails on ours where there is no RabbitMQ to compare."""

    suite: str
    test: str
    ours: Outcome
    theirs: Outcome | None
    explanation: str | None

    @property
    def is_ours_to_mend(self) -> bool:
        """Whether it fails on ours, and nobody has explained why it must."""
        passes_there = self.theirs is None or self.theirs.outcome == PASSED
        return self.ours.outcome == FAILED and passes_there and self.explanation is None

    def words(self) -> str:
        """Return the difference as a line of text."""
        theirs = "not run" if self.theirs is None else self.theirs.outcome
        reason = self.explanation or self.ours.why or (self.theirs.why if self.theirs else "")
        return f"{self.suite} {self.test}: {self.ours.outcome} on ours, {theirs} on RabbitMQ: {reason}"


def differences(
    ours: Iterable[Outcome], theirs: Iterable[Outcome] | None, explained: dict[tuple[str, str], str]
) -> list[Difference]:
    """Return each test that ends otherwise on ours; `theirs` is None where RabbitMQ has not been asked."""
    there = None if theirs is None else {(one.suite, one.test): one for one in theirs}
    found = []
    for one in ours:
        key = (one.suite, one.test)
        other = None if there is None else there.get(key)
        differs = one.outcome == FAILED if other is None else one.outcome != other.outcome
        if differs:
            found.append(Difference(one.suite, one.test, one, other, explained.get(key)))
    return found


def stale(
    ours: Iterable[Outcome], found: Iterable[Difference], explained: dict[tuple[str, str], str]
) -> list[tuple[str, str]]:
    """Return what is explained, has passed, and does not differ.

    What fails on both brokers needs its reason as well: elsewhere there is no RabbitMQ, or another version.
    """
    differ = {(one.suite, one.test) for one in found}
    passed = [(one.suite, one.test) for one in ours if one.outcome == PASSED]
    return [key for key in passed if key in explained and key not in differ]


def _counts(outcomes: Iterable[Outcome]) -> list[str]:
    said = [one.outcome for one in outcomes]
    return [str(said.count(word)) for word in (PASSED, FAILED, SKIPPED)]


def page(titles: dict[str, str], found: dict[str, list[Outcome]], all_differences: list[Difference]) -> str:
    """Return the table of docs/inside/compatibility.md: for each broker how many of those that ran have passed."""
    lines = ["| suite | " + " | ".join(found) + " | differ |", "|---" * (len(found) + 2) + "|"]
    for key, title in titles.items():
        cells = []
        for outcomes in found.values():
            passed, failed, skipped = map(int, _counts(one for one in outcomes if one.suite == key))
            cells.append(f"{passed} of {passed + failed}" + (f", {skipped} skipped" if skipped else ""))
        cells.append(str(sum(one.suite == key for one in all_differences)))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def table(titles: dict[str, str], found: dict[str, list[Outcome]], all_differences: list[Difference]) -> str:
    """Return the table as text: suites down, the brokers' counts across, and how many tests differ."""
    head = ["suite", *(f"{name} {word}" for name in found for word in (PASSED, FAILED, SKIPPED)), "differ"]
    lines = [head]
    for key, title in titles.items():
        cells = [title]
        for outcomes in found.values():
            cells += _counts(one for one in outcomes if one.suite == key)
        cells.append(str(sum(one.suite == key for one in all_differences)))
        lines.append(cells)
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )
