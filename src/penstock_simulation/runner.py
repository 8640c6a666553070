"""Runs of many simulations on the cores of this machine; spark_runner.py does the same on executors."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from penstock.interrupts import end_silently, interrupts_blocked
from penstock_simulation.candidate import Candidate
from penstock_simulation.grid import Trial
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Workload

Report = Callable[[int, int], None]
"""Callback with the number of finished simulations, and of all."""


def run_trials(workload: Workload, candidates: Sequence[Candidate], report: Report, cores: int = 0) -> list[Trial]:
    """Run a simulation of each candidate, in separate processes; return the trials in the order of candidates.

    `cores` is the number of processes; 0 for all cores, 1 runs them in this process.
    """
    cores = min(cores or os.cpu_count() or 1, len(candidates))
    if cores <= 1:
        trials = []
        for done, candidate in enumerate(candidates, 1):
            trials.append(Trial(candidate, simulate(workload, candidate)))
            report(done, len(candidates))
        return trials
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, mp_context=context, initializer=end_silently) as pool:
        with interrupts_blocked():
            futures = [pool.submit(simulate, workload, candidate) for candidate in candidates]
        try:
            for done, _ in enumerate(as_completed(futures), 1):
                report(done, len(candidates))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [Trial(each, future.result()) for each, future in zip(candidates, futures, strict=True)]
