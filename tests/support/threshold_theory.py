"""Theory of a queue with two thresholds whose source stops above the one and goes on at the other (hysteresis).

The queue has Poisson arrivals while it is open. It closes when an arrival finds `stop` messages, and opens when a
departure leaves `resume`. A cycle goes from one closing to the next. M|M|1 is a birth and death chain; M|D|1 is solved
at the departures, as in the papers on M|G|1 with onset and abatement thresholds (Abaev, Gaidamaka, Samouylov 2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Row = list[float]


@dataclass(frozen=True)
class Cycle:
    """Mean times of a cycle, in seconds."""

    open_s: float
    """From an opening to the next closing."""
    return_s: float
    """From a closing to the next opening: the return time from overload."""
    above_s: float
    """Time above the stop threshold in a cycle."""

    @property
    def cycle_s(self) -> float:
        """Return the length of a cycle."""
        return self.open_s + self.return_s

    @property
    def closed(self) -> float:
        """Return the share of the time in which the source is stopped."""
        return self.return_s / self.cycle_s

    @property
    def above_stop(self) -> float:
        """Return the share of the time in which the depth is above the stop threshold."""
        return self.above_s / self.cycle_s


def mm1(arrivals: float, services: float, stop: int, resume: int) -> Cycle:
    """Return the cycle of M|M|1; rates per second."""
    ratio = services / arrivals
    upwards = [sum(ratio**k for k in range(n + 1)) / arrivals for n in range(stop + 1)]
    return Cycle(sum(upwards[resume:]), (stop + 1 - resume) / services, 1 / services)


def md1(arrivals: float, services: float, stop: int, resume: int) -> Cycle:
    """Return the cycle of M|D|1; rates per second.

    f(n) is the mean time until the depth passes `stop`, from a departure that leaves n messages. g(n) is the mean rest
    of the service in which that happens. Both obey f(n) = (what this service adds) + sum of P(k arrivals) f(n + k - 1).
    """
    service = 1 / services
    load = arrivals * service
    states = range(1, stop + 1)
    time: Row = []
    rest: Row = []
    matrix: list[Row] = []
    for n in states:
        missing = stop + 1 - n
        # The integral of P(fewer than `missing` arrivals) over the service is the mean time in it before the passage.
        spent = sum(1 - _at_most(j, load) for j in range(missing)) / arrivals
        row = [0.0] * len(states)
        for k in range(missing):
            row[max(n + k - 1, 1) - 1] += _poisson(k, load)
        idle = _poisson(0, load) / arrivals if n == 1 else 0.0  # It leaves nothing: the next arrival begins a service.
        time.append(spent + idle)
        rest.append(service - spent)  # E[(D - S)+] = D - E[min(D, S)], 0 in services without the passage.
        matrix.append([(1.0 if i == n - 1 else 0.0) - row[i] for i in range(len(states))])
    open_times, rests = _solve(matrix, time), _solve(matrix, rest)
    start = max(resume, 1) - 1
    before = 1 / arrivals if resume == 0 else 0.0
    remaining = rests[start]
    return Cycle(before + open_times[start], remaining + (stop - resume) * service, remaining)


def _poisson(k: int, mean: float) -> float:
    return math.exp(-mean) * mean**k / math.factorial(k)


def _at_most(k: int, mean: float) -> float:
    return sum(_poisson(j, mean) for j in range(k + 1))


def _solve(matrix: list[Row], right: Row) -> Row:
    """Solve a system of linear equations by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda index: abs(rows[index][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for index in range(size):
            if index != column and rows[index][column]:
                factor = rows[index][column] / rows[column][column]
                rows[index] = [a - factor * b for a, b in zip(rows[index], rows[column], strict=True)]
    return [rows[index][size] / rows[index][index] for index in range(size)]
