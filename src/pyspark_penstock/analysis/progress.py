"""Progress of Spark jobs on a terminal or in a log: the step, and the completed share of its tasks."""

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
"""Seconds between two lines if standard error is no terminal."""


class Silent:
    """Reporter that reports nothing."""

    def step(self, words: str) -> None:
        """Begin a step."""

    def part(self, words: str) -> None:
        """Report how much of the step is done."""


class Progress(Silent):
    """Reporter of steps on standard error, with a thread that reports the completed share of a step, or of its
    tasks."""

    def __init__(self, context: SparkContext | None = None) -> None:
        self._tracker = None if context is None else context.statusTracker()
        self._terminal = sys.stderr.isatty()
        self._step = ""
        self._part = ""
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
        self._step, self._part = words, ""
        self._show("")
        if not self._terminal:
            print(file=sys.stderr, flush=True)

    def part(self, words: str) -> None:
        """Record how much of the step is done; it is shown later."""
        self._part = words

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S if self._terminal else IN_LOG_S):
            words = self._tasks() or self._part
            if words:
                self._show(f": {words}")
                if not self._terminal:
                    print(file=sys.stderr, flush=True)

    def _tasks(self) -> str:
        """Describe how many tasks of the running stages are done; empty if none run."""
        if self._tracker is None:
            return ""
        done, tasks = 0, 0
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                done, tasks = done + info.numCompletedTasks, tasks + info.numTasks
        return f"{done:,} of {tasks:,} tasks" if tasks else ""

    def _show(self, tasks: str) -> None:
        line = f"{time.monotonic() - self._began:6.0f} s  {self._step}{tasks}"
        print(f"\r\x1b[K{line}" if self._terminal else line, end="", file=sys.stderr, flush=True)
