"""What a round must have delivered, and what is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.crash_spark.query import COUNT, WINDOW


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is missing in a target, what is there more than once, and what nobody sent."""

    expected: int
    lost: int
    doubled: int
    strange: int

    def is_exact(self) -> bool:
        """Return whether everything is there once, and nothing else."""
        return not (self.lost or self.doubled or self.strange)

    def describe(self) -> str:
        """Return it in words."""
        if self.is_exact():
            return f"{self.expected:,} exactly once"
        return f"of {self.expected:,}: {self.lost:,} lost, {self.doubled:,} doubled, {self.strange:,} strange"


def judge(expected: Iterable[str], found: Iterable[str]) -> Verdict:
    """Compare what is in a target with what must be there once."""
    wanted, there = Counter(expected), Counter(found)
    assert max(wanted.values(), default=1) == 1, "each result is expected once"
    lost = sum(1 for each in wanted if each not in there)
    doubled = sum(count - 1 for each, count in there.items() if each in wanted)
    strange = sum(count for each, count in there.items() if each not in wanted)
    return Verdict(len(wanted), lost, doubled, strange)


def expected_of(kind: str, messages: int) -> list[str]:
    """Return the results of the numbers below `messages`; the last message only closes the windows before it."""
    if kind == COUNT:
        return [f"{start} {WINDOW}" for start in range(0, messages, WINDOW)]
    return [str(number) for number in range(messages)]


def parquet_rows(folder: Path) -> list[str]:
    """Return the values in the files that the log of Spark's file sink has, as its readers see them."""
    import pyarrow.parquet as pq

    log = folder / "_spark_metadata"
    names = sorted(
        (path for path in log.iterdir() if not path.name.startswith(".")),
        key=lambda path: (int(path.name.split(".")[0]), path.suffix),
    )
    compacted = [path for path in names if path.suffix == ".compact"]
    if compacted:
        last = int(compacted[-1].name.split(".")[0])
        names = [compacted[-1], *[path for path in names if not path.suffix and int(path.name) > last]]
    files: dict[str, None] = {}
    for name in names:
        for line in name.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry.get("action", "add") == "add":
                files[entry["path"].removeprefix("file://")] = None
    return [str(value) for file in files for value in pq.read_table(file).column("value").to_pylist()]
