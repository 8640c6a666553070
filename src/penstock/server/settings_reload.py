"""Reload of the settings file (SIGHUP): one reload at a time. Requests during a reload cause one further reload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from penstock.errors import ConfigError
from penstock.logs.ids import RELOAD_REFUSED
from penstock.logs.logger import log
from penstock.settings.config import Settings, load


class SettingsReload:
    """Reloads of one settings file."""

    def __init__(self, file: Path | None, apply: Callable[[Settings], Awaitable[None]]) -> None:
        """`apply` gets the settings of a readable file, applies them and logs the result."""
        self._file = file
        self._apply = apply
        self._task: asyncio.Task[None] | None = None
        self._again: bool = False
        """True if the settings file must be read once more."""

    def request(self) -> asyncio.Task[None] | None:
        """Read the settings file again, and return the task of the reload; None without a file, which is logged."""
        if self._file is None:
            log(RELOAD_REFUSED, "reload: there is no settings file; start with --config FILE")
            return None
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(self._file))
        return self._task

    def cancel(self) -> None:
        """End the present reload, because the broker stops."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, file: Path) -> None:
        while self._again:
            self._again = False
            try:
                settings = await asyncio.to_thread(load, file)
            except ConfigError as error:
                log(RELOAD_REFUSED, "reload: the old settings stay: %s", error)
                continue
            await self._apply(settings)
