"""Shells of the client: what a connection with blocking calls and one of asyncio have from one table of operations.

`Operation` and `Listing` hold functions that are written once, as steps of an engine. A shell gets a method for each: a
blocking one or a coroutine, an iterator or an asynchronous one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import update_wrapper
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from penstock.client.engine.connection import Engine
from penstock.client.engine.waits import Steps

P = ParamSpec("P")
T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)


class BlockingShell:
    """Connection whose calls block."""

    def core(self) -> Engine:
        """Return the engine."""
        raise NotImplementedError

    def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine."""
        raise NotImplementedError


class AsyncShell:
    """Connection whose calls are coroutines."""

    def core(self) -> Engine:
        """Return the engine."""
        raise NotImplementedError

    async def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine."""
        raise NotImplementedError


class Pages(Protocol[Item_co]):
    """Items that come page by page; one page is in memory."""

    def following(self) -> Steps[Sequence[Item_co]]:
        """Return the next page; it is empty at the end."""


class Operation(Generic[P, T]):
    """Call that both shells have; its function is the steps of it."""

    def __init__(self, steps: Callable[Concatenate[Engine, P], Steps[T]]) -> None:
        self.steps = steps

    @overload
    def __get__(self, shell: AsyncShell, owner: object) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, shell: BlockingShell, owner: object) -> Callable[P, T]: ...
    def __get__(self, shell: object, owner: object) -> Any:
        raise NotImplementedError  # Each shell has methods in its place.

    def method(self, is_async: bool) -> Callable[..., Any]:
        """Return the method of a shell."""
        steps = self.steps
        if is_async:

            async def call(self: AsyncShell, *args: P.args, **fields: P.kwargs) -> T:
                return await self.run(steps(self.core(), *args, **fields))

            return _signed(call, steps, "{}")

        def call_and_wait(self: BlockingShell, *args: P.args, **fields: P.kwargs) -> T:
            return self.run(steps(self.core(), *args, **fields))

        return _signed(call_and_wait, steps, "{}")


class Listing(Generic[P, T]):
    """Iteration that both shells have; its function returns the pages."""

    def __init__(self, pages: Callable[Concatenate[Engine, P], Pages[T]]) -> None:
        self.pages = pages

    @overload
    def __get__(self, shell: AsyncShell, owner: object) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, shell: BlockingShell, owner: object) -> Callable[P, Iterator[T]]: ...
    def __get__(self, shell: object, owner: object) -> Any:
        raise NotImplementedError  # Each shell has methods in its place.

    def method(self, is_async: bool) -> Callable[..., Any]:
        """Return the method of a shell."""
        pages_of = self.pages
        if is_async:

            async def each(self: AsyncShell, *args: P.args, **fields: P.kwargs) -> AsyncIterator[T]:
                pages = pages_of(self.core(), *args, **fields)
                while page := await self.run(pages.following()):
                    for item in page:
                        yield item

            return _signed(each, pages_of, "AsyncIterator[{}]")

        def each_and_wait(self: BlockingShell, *args: P.args, **fields: P.kwargs) -> Iterator[T]:
            pages = pages_of(self.core(), *args, **fields)
            while page := self.run(pages.following()):
                yield from page

        return _signed(each_and_wait, pages_of, "Iterator[{}]")


def _signed(method: Any, steps: Any, result: str) -> Callable[..., Any]:
    """Return a method that shows the parameters of its function, and what it returns itself.

    `inspect.signature` follows `__wrapped__`; so that is a function which nobody calls, with `self` and the result.
    """
    code = steps.__code__
    shown = FunctionType(
        code.replace(co_varnames=("self", *code.co_varnames[1:])), steps.__globals__, steps.__name__, steps.__defaults__
    )
    shown.__kwdefaults__ = steps.__kwdefaults__
    given = {name: text for name, text in steps.__annotations__.items() if name not in ("engine", "return")}
    shown.__annotations__ = {**given, "return": result.format(steps.__annotations__["return"].partition("[")[2][:-1])}
    found: Callable[..., Any] = update_wrapper(method, shown, ("__doc__", "__annotations__"), ())
    return found
