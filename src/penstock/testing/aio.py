"""Assertions for asynchronous tests: those of `penstock.testing`, as awaitables, while the test's loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.testing import expectations

P = ParamSpec("P")
T = TypeVar("T")


def _beside(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Return the asynchronous form of a function that waits."""

    @wraps(function)
    async def waiting(*given: P.args, **named: P.kwargs) -> T:
        __tracebackhide__ = True
        return await asyncio.to_thread(function, *given, **named)

    return waiting


assert_held = _beside(expectations.assert_held)
assert_confirmed = _beside(expectations.assert_confirmed)
assert_depth = _beside(expectations.assert_depth)
