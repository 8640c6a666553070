"""Errors of the data sources, with their sentence first.

Spark shows a Python error as its traceback, whose last line is the sentence. An exception with a cause is shown after
the cause. So an error that leaves the data source gets a cause without a traceback: the same error again, in one line.
Spark's message then begins with the class and the sentence, and the traceback follows. Workers that simplify a
traceback remove the cause, so `SparkSourceError` keeps this cause.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pyspark_penstock.errors import SparkSourceError

Class = TypeVar("Class", bound=type)

_OURS = re.compile(r"pyspark_(?:penstock|amqp)\.errors\.\w+: (.+)")
_MOST = 500
"""Most characters of a foreign sentence."""


def sentence_first(cls: Class) -> Class:
    """Put the sentence first in errors of the public methods of a class, and of the iterators that they return."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _guarded(member))
    return cls


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded(*args: Any, **named: Any) -> Any:
        try:
            found = method(*args, **named)
        except SparkSourceError as error:
            put_first(error)
            raise
        return _each(found) if isinstance(found, Iterator) else found

    return guarded


def _each(items: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from items
    except SparkSourceError as error:
        put_first(error)
        raise


def put_first(error: SparkSourceError) -> None:
    """Make the sentence of an error the first line of its traceback."""
    if error.first is None:
        error.first = type(error)(*error.args)


def sentence_of(text: str) -> str:
    """Return the sentence in the text of an exception of Spark; the first line if it has no sentence of Penstock."""
    found = _OURS.search(text)
    if found is not None:
        return found[1].strip()
    return text.strip().split("\n", 1)[0][:_MOST]
