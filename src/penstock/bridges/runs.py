"""Bridge of the worker: carriers one after the other, with pauses between failures, and reports.

Theory of operation. A carrier has its own connections, which it does not open again: after any failure they are closed
and another carrier begins. So no message is settled by a delivery tag of an older channel. Before each attempt there is
a pause, which doubles with each failure and has jitter, so that a wrong password costs one login a pause.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.bridges.dialing import Dial
from penstock.bridges.federation_link import FederationLink
from penstock.bridges.plans import Carries, Plan, Spec, plan_of
from penstock.bridges.state import AWAY, ENDED, MOVING, REFUSED, STARTING, State
from penstock.errors import ConfigError, PenstockError
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log

PAUSE_MOST_S: Final = 30.0
"""Most seconds between two attempts, unless the definition says more."""
LEAST_S: Final = 0.05
"""Least seconds between two attempts."""
STEADY_S: Final = 10.0
"""Seconds after which a connected bridge counts as well: the next failure begins with the first pause again."""
REPORT_S: Final = 1.0
QUIET_S: Final = 3.0
"""Seconds between two reports while messages move, and between two looks for other changes than of the state."""
STOP_S: Final = 20.0
"""Most seconds for the end in order."""
SECRET_LEAST: Final = 3
"""Characters of a password from which on it is looked for in texts: a shorter one would be found in any."""

Row = dict[str, Any]
Tell = Callable[[Row], None]
"""Function that gets a report."""


class Bridge:
    """One bridge, as its spec says."""

    def __init__(self, spec: Spec, cluster: str, dial: Dial, tell: Tell) -> None:
        self._spec = spec
        self._cluster = cluster
        self._dial = dial
        self._tell = tell
        self._plan: Plan | None = None
        self._carrier: Carries | None = None
        self._stopping = asyncio.Event()
        self._failures = 0
        self._attempts = 0
        self._failed_as = AWAY
        """State after a failure."""
        self._reported: tuple[object, ...] = ()
        """State and counts of the last report."""
        self._changed = asyncio.Event()
        """Set when the state has changed."""
        self._secrets = secrets_of(spec.get("value"))
        self.state = State(name=STARTING, since=asyncio.get_running_loop().time(), on_change=self._changed.set)

    def stop(self, is_gone: bool = False) -> None:
        """End in order; `run` returns then. A link that `is_gone` for good leaves nothing at its upstream."""
        self._stopping.set()
        if is_gone and isinstance(self._carrier, FederationLink):
            self._carrier.sides.is_gone = True
        if self._carrier is not None:
            self._carrier.stop()

    def look(self) -> None:
        """Look at the broker again: what a link of federation has seen there has changed."""
        if isinstance(self._carrier, FederationLink):
            self._carrier.look_again()

    async def run(self) -> None:
        """Carry until `stop`; a bridge that has ended by its definition waits for it."""
        reporting = asyncio.ensure_future(self._report_always())
        try:
            if await self._try_always():
                self._change(ENDED, "")
            self._report()
            await self._stopping.wait()
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)

    async def _try_always(self) -> bool:
        """Let one carrier follow the other; return True if the bridge has ended by its definition."""
        try:
            plan = self._plan = plan_of(self._spec, self._cluster, self._dial)
        except PenstockError as error:
            self._change(REFUSED, f"the definition cannot be used: {error}")
            return False
        except Exception as error:
            self._change(REFUSED, f"the definition cannot be used: {self._place_of(error)}")
            return False
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            problem = await self._try_once(plan)
            if self._stopping.is_set():
                return False
            if not problem:
                return True
            if asyncio.get_running_loop().time() - began > STEADY_S:
                self._failures = 0
            self._failures += 1
            if plan.delay_s <= 0:
                self._change(AWAY, f"{problem}; not tried again, because reconnect-delay is 0")
                return False
            await self._pause(plan, problem)
        return False

    async def _try_once(self, plan: Plan) -> str:
        """Run a carrier; return the reason of its failure, nothing if it has ended in order."""
        self._failed_as = AWAY
        try:
            self._carrier = plan.make(self._attempts, self.state)
            self._attempts += 1
            await self._carrier.run()
        except PenstockError as error:
            if isinstance(error, ConfigError):
                self._failed_as = REFUSED
            return self.plain(str(error) or type(error).__name__)
        except Exception as error:
            return self._place_of(error)
        finally:
            self._carrier = None
        return ""

    def _place_of(self, error: Exception) -> str:
        """Log kind and place of an unexpected error, and return both. Its text may have a password."""
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        place = "" if frame is None else f" at {frame.tb_frame.f_code.co_qualname}, line {frame.tb_lineno}"
        log(INTERNAL_ERROR, "Bridge %s: %s%s", self._spec["key"], type(error).__name__, place)
        return f"an error of the worker: {type(error).__name__}{place}"

    async def _pause(self, plan: Plan, problem: str) -> None:
        """Wait before the next attempt, with jitter."""
        most = max(plan.delay_s, PAUSE_MOST_S)
        pause = min(plan.delay_s * 2.0 ** min(self._failures - 1, 20), most)
        pause = max(random.uniform(pause / 2, pause), LEAST_S)
        self._change(self._failed_as, f"{problem}; tried again in {pause:.1f} s")
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._stopping.wait()

    # Reports

    def _change(self, name: str, reason: str) -> None:
        self.state.change(name, self.plain(reason), asyncio.get_running_loop().time())
        self._report()

    async def _report_always(self) -> None:
        """Report each second while messages move, and what has changed otherwise; changes of the state are at once."""
        while True:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_S if self.state.name == MOVING else QUIET_S):
                    await self._changed.wait()
            self._report()

    def _report(self) -> None:
        """Report, if something has changed."""
        state, carrier = self.state, self._carrier
        lag = None if carrier is None else carrier.lag
        now = state.name, state.reason, state.carried, state.refused, state.again, lag, tuple(self._why())
        if now != self._reported or state.name == MOVING:
            self._reported = now
            self._tell(self._row(lag))

    def _row(self, lag: int | None) -> Row:
        state, plan = self.state, self._plan
        offset = time.time() - asyncio.get_running_loop().time()
        return {
            "revision": self._spec["revision"],
            "state": state.name,
            "reason": self.plain(state.reason),
            "since": state.since + offset,
            "carried": state.carried,
            "bytes": state.bytes,
            "refused": state.refused,
            "again": state.again,
            "last": state.last + offset if state.last else 0,
            "lag": lag,
            "delivery": "" if plan is None else plan.delivery(),
            "why": [self.plain(each) for each in self._why()],
            "source": "" if plan is None else plan.source,
            "target": "" if plan is None else plan.target,
        }

    def _why(self) -> list[str]:
        """Return sentences about a target that refuses or holds."""
        if self.state.name == REFUSED:
            return self.state.reasons
        why: list[str] = getattr(self._carrier, "why", [])
        return why

    def plain(self, text: str) -> str:
        """Return a text without the passwords of the definition."""
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return text


def secrets_of(value: object) -> list[str]:
    """Return the passwords in the URIs of a definition, as they are and percent-encoded, the longest first."""
    found: set[str] = set()
    for uri in _uris_in(value):
        user_part, at, _ = uri.partition("://")[2].partition("?")[0].rpartition("@")
        if at:
            password = user_part.partition(":")[2]
            found |= {password, unquote(password)}
        try:
            query = urlsplit(uri).query
        except ValueError:
            query = uri.partition("?")[2]
        for field in query.split("&"):
            name, _, given = field.partition("=")
            if name == "password":
                found |= {given, unquote(given)}
    return sorted((each for each in found if len(each) >= SECRET_LEAST), key=len, reverse=True)


def _uris_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if "://" in value else []
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [uri for part in parts for uri in _uris_in(part)]
