"""Shells of the client: functions written once, for objects with blocking calls and for objects of asyncio.

`Operation` and `Listing` hold functions that return steps of an engine. A class of a shell gets a method for each: a
blocking one or a coroutine, an iterator or an asynchronous one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import update_wrapper
from types import FunctionType, TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from penstock.client.engine.waits import Steps

P = ParamSpec("P")
T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)


class Pages(Protocol[Item_co]):
    """Items that arrive page by page; one page is in memory."""

    def following(self) -> Steps[Sequence[Item_co]]:
        """Return the next page; it is empty at the end."""

    def closing(self) -> Steps[None]:
        """End the iteration, perhaps early."""
        yield from ()


class Operation(Generic[P, T]):
    """Call of both shells; its function returns the steps, and takes the subject of the shell first."""

    name: str

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps

    @overload
    def __get__(self, shell: AsyncShell, owner: object) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, shell: BlockingShell, owner: object) -> Callable[P, T]: ...
    @overload
    def __get__(self, shell: None, owner: object) -> Callable[..., Any]: ...
    def __get__(self, shell: object, owner: Any) -> Any:
        return _bound(self, shell, owner)

    def __set_name__(self, owner: object, name: str) -> None:
        self.name = name

    def method(self, is_async: bool) -> Callable[..., Any]:
        """Return the method of a shell."""
        steps = self.steps
        if is_async:

            async def call(self: AsyncShell, *args: P.args, **fields: P.kwargs) -> T:
                return await self.run(steps(self.subject(), *args, **fields))

            return _signed(call, steps, "{}")

        def call_and_wait(self: BlockingShell, *args: P.args, **fields: P.kwargs) -> T:
            return self.run(steps(self.subject(), *args, **fields))

        return _signed(call_and_wait, steps, "{}")


class Listing(Generic[P, T]):
    """Iteration of both shells; its function returns the pages."""

    name: str

    def __init__(self, pages: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self.pages = pages

    @overload
    def __get__(self, shell: AsyncShell, owner: object) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, shell: BlockingShell, owner: object) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, shell: None, owner: object) -> Callable[..., Any]: ...
    def __get__(self, shell: object, owner: Any) -> Any:
        return _bound(self, shell, owner)

    def __set_name__(self, owner: object, name: str) -> None:
        self.name = name

    def method(self, is_async: bool) -> Callable[..., Any]:
        """Return the method of a shell."""
        pages_of = self.pages
        if is_async:

            async def each(self: AsyncShell, *args: P.args, **fields: P.kwargs) -> AsyncIterator[T]:
                pages = pages_of(self.subject(), *args, **fields)
                try:
                    while page := await self.run(pages.following()):
                        for item in page:
                            yield item
                finally:
                    await self.run(pages.closing())

            return _signed(each, pages_of, "AsyncIterator[{}]")

        def each_and_wait(self: BlockingShell, *args: P.args, **fields: P.kwargs) -> Iterator[T]:
            pages = pages_of(self.subject(), *args, **fields)
            try:
                while page := self.run(pages.following()):
                    yield from page
            finally:
                self.run(pages.closing())

        return _signed(each_and_wait, pages_of, "Iterator[{}]")


class Shell:
    """Connection, publisher or another object of a program."""

    is_async: ClassVar[bool | None] = None
    """True if the calls are coroutines; None for parts that both shells share."""

    def subject(self) -> Any:
        """Return the first argument of the functions of the operations."""
        return self

    def entering(self) -> Steps[None]:
        """Begin the block of a `with`."""
        yield from ()

    def leaving(self, is_good: bool) -> Steps[None]:
        """End the block of a `with`, without an exception or with one."""
        raise NotImplementedError


class BlockingShell(Shell):
    """Object whose calls block."""

    is_async = False
    _connection: BlockingShell

    def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine."""
        return self._connection.run(steps)

    def __enter__(self) -> Self:
        self.run(self.entering())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.run(self.leaving(error is None))


class AsyncShell(Shell):
    """Object whose calls are coroutines."""

    is_async = True
    _connection: AsyncShell

    async def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine."""
        return await self._connection.run(steps)

    async def __aenter__(self) -> Self:
        await self.run(self.entering())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.run(self.leaving(error is None))


def _bound(call: Operation[..., Any] | Listing[..., Any], shell: object, owner: type[Shell]) -> Any:
    """Return the method of a class, which is created at first use: creating all takes a millisecond."""
    if owner.is_async is None:
        return call
    method = call.method(owner.is_async)
    method.__name__, method.__qualname__ = call.name, f"{owner.__qualname__}.{call.name}"
    setattr(owner, call.name, method)
    return method if shell is None else getattr(shell, call.name)


def _signed(method: Any, steps: Any, result: str) -> Callable[..., Any]:
    """Return a method with the parameters of its function, and its own result.

    `inspect.signature` follows `__wrapped__`, which is a function that is never called, with `self` and the result.
    """
    code = steps.__code__
    shown = FunctionType(
        code.replace(co_varnames=("self", *code.co_varnames[1:])), steps.__globals__, steps.__name__, steps.__defaults__
    )
    shown.__kwdefaults__ = steps.__kwdefaults__
    given = {name: text for name, text in steps.__annotations__.items() if name in shown.__code__.co_varnames}
    shown.__annotations__ = {**given, "return": result.format(steps.__annotations__["return"].partition("[")[2][:-1])}
    wrapper: Callable[..., Any] = update_wrapper(method, shown, ("__doc__", "__annotations__"), ())
    return wrapper
