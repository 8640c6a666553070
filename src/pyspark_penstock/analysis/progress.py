"""Progress of Spark jobs on a terminal or in a log: the step, and how much of its tasks is done."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

EVERY_S = 1.0
IN_LOG_S = 15.0
"""Seconds between two lines where standard error is no terminal."""


class Progress:
    """Reporter of steps on standard error, with a thread that reports the tasks of the running stage."""

    def __init__(self, context: SparkContext) -> None:
        self._tracker = context.statusTracker()
        self._terminal = sys.stderr.isatty()
        self._step = ""
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._terminal:
            print(file=sys.stderr)

    def step(self, words: str) -> None:
        """Begin a step."""
        self._step = words
        self._show("")
        if not self._terminal:
            print(file=sys.stderr, flush=True)

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S if self._terminal else IN_LOG_S):
            done, tasks = 0, 0
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info is not None:
                    done, tasks = done + info.numCompletedTasks, tasks + info.numTasks
            if tasks:
                self._show(f": {done:,} of {tasks:,} tasks")
                if not self._terminal:
                    print(file=sys.stderr, flush=True)

    def _show(self, tasks: str) -> None:
        line = f"{time.monotonic() - self._began:6.0f} s  {self._step}{tasks}"
        print(f"\r\x1b[K{line}" if self._terminal else line, end="", file=sys.stderr, flush=True)
