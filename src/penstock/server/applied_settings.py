"""Settings in effect in one process: published for `penstock config`, and replaced when the file was read again.

Patterns and users of the file are the shard's. This is the rest: start-up settings that may change, the level of the
log, certificates, and the web hook of alarms.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.logs.ids import LOG_LEVEL, NEEDS_RESTART, OPEN_FILE, RELOAD_REFUSED, RELOADED
from penstock.logs.logger import log
from penstock.management.alarms import AlarmListener
from penstock.server.logs import set_level
from penstock.server.shard import Shard
from penstock.settings.config import Settings, changed_at_start, reloaded, start_rows, table_rows
from penstock.settings.file_users import is_open_to_others

if TYPE_CHECKING:
    from penstock.server.alarm_hook import AlarmHook
    from penstock.server.tls.contexts import ServedCertificates
    from penstock.settings.file_tables import HookSettings


class AppliedSettings:
    """Settings in effect in the process of one shard."""

    def __init__(self, settings: Settings, shard: Shard, whole: Settings | None = None) -> None:
        """`whole` are the settings of the node, if `settings` are those of one of its shards: they are published."""
        self.settings = settings
        self._shard = shard
        self._whole = whole
        self._hook: AlarmHook | None = None
        """Web hook of alarms; None without one."""
        self.publish()

    def begin(self) -> None:
        """Serve the web hook of alarms, once the shard has an event loop. Raises ConfigError."""
        self._set_hook(self.settings.hook)

    async def stop(self) -> None:
        """End the web hook."""
        if self._hook is not None:
            await asyncio.to_thread(self._hook.stop)

    def publish(self) -> None:
        """Make the start-up settings available to `penstock config`."""
        settings = self.settings
        if self._whole is not None:
            settings = replace(reloaded(self._whole, settings), hook=settings.hook)
        published = self._shard.driver.start_settings
        published.rows = start_rows(settings) + table_rows(settings)
        published.file = "" if settings.file is None else str(settings.file)

    async def replace(self, settings: Settings, certificates: ServedCertificates | None) -> bool:
        """Apply a settings file that was read again: patterns and users, start-up settings that may change, TLS.

        Return whether patterns and users were replaced.
        """
        replaced = await self._shard.replace_file(settings)
        if replaced:
            self._replace_reloadable(settings)
            if self.settings.definitions is not None:
                log(
                    RELOADED,
                    "reload: definitions are read at the start only; `penstock definitions import` imports '%s' now",
                    self.settings.definitions,
                )
            for name in changed_at_start(self.settings, settings):
                log(NEEDS_RESTART, "reload: %s takes effect only at the start; restart the broker", name)
        await self._replace_certificates(settings, certificates)
        self._replace_hook(settings)
        return replaced

    def _replace_reloadable(self, settings: Settings) -> None:
        """Apply the start-up settings that a reload of the file may change; options of the command line persist."""
        self.settings = reloaded(self.settings, settings)
        self.publish()
        self._shard.apply(self.settings)
        if set_level(self.settings.log_level):
            log(LOG_LEVEL, "reload: the log has records from level %s on", self.settings.log_level)

    async def _replace_certificates(self, settings: Settings, certificates: ServedCertificates | None) -> None:
        """Serve the certificates of a settings file. If any cannot be used, the present certificates stay."""
        if certificates is not None and settings.tls is not None:
            try:
                await certificates.replace(settings.tls)
                log(RELOADED, "reload: the certificates were read again; new connections use them")
            except ConfigError as error:
                log(RELOAD_REFUSED, "reload: the old certificates stay: %s", error)

    def _replace_hook(self, settings: Settings) -> None:
        """Use the web hook of a settings file from the next request on; if it cannot be used, the present one stays."""
        if settings.hook == self.settings.hook:
            return
        try:
            self._set_hook(settings.hook)
        except ConfigError as error:
            log(RELOAD_REFUSED, "reload: the old web hook of alarms stays: %s", error)
            return
        self.settings = replace(self.settings, hook=settings.hook)
        self.publish()
        server = "none" if settings.hook is None else settings.hook.server
        log(RELOADED, "reload: the web hook of alarms is %s", server)

    def _set_hook(self, settings: HookSettings | None) -> None:
        """Send changes of alarms to a web hook, or to none. Raises ConfigError."""
        driver = self._shard.driver
        if settings is None:
            if self._hook is not None:
                self._hook.end()
            self._hook = None
            driver.alarms.listener = AlarmListener()
        elif self._hook is not None:
            self._hook.configure(settings)
        else:
            from penstock.server.alarm_hook import AlarmHook

            self._hook = AlarmHook(settings, driver.name, self._in_loop)
            driver.alarms.listener = self._hook

    def _in_loop(self, action: Callable[[], None]) -> None:
        """Carry out an action of another thread in the event loop, unless the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._shard.event_loop.loop.call_soon_threadsafe(self._act, action)

    def _act(self, action: Callable[[], None]) -> None:
        event_loop = self._shard.event_loop
        self._shard.driver.begin(event_loop.loop.time())
        action()
        event_loop.schedule()


def warn_of_open_file(settings: Settings) -> None:
    """Log that a file with passwords can be read by others."""
    file = settings.file
    if file is not None and settings.clear_passwords and is_open_to_others(file):
        log(OPEN_FILE, "'%s' has passwords and can be read by others; chmod o-r it, or use password_hash", file)
