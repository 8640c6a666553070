"""Objects that Spark sends from the driver to executors: their constructor arguments, with the version of the package.

The pickle of such an object is opened only with the same version of Penstock. Options of another version may have other
fields, and a task would read with wrong ones or end with an error of the unpickler.
"""

import pickle
import socket
from pathlib import Path
from typing import Any

from penstock.version import VERSION
from pyspark_penstock.errors import SparkSourceError
from pyspark_penstock.sentences import put_first


def packed(cls: type, *state: object) -> tuple[Any, ...]:
    """Return the value of an object's ``__reduce__``: the receiver creates it from these arguments."""
    return unpacked, (VERSION, pickle.dumps((cls, state)))


def unpacked(version: str, data: bytes) -> Any:
    """Return the object that was packed.

    Raises `SparkSourceError` if it was packed by another version of Penstock.
    """
    if version != VERSION:
        error = SparkSourceError(
            f"the executor {socket.gethostname()} runs Penstock {VERSION} ({Path(__file__).parent}), and the driver "
            f"{version}: install the same version of penstock[spark] on the driver and on all executors"
        )
        put_first(error)
        raise error
    cls, state = pickle.loads(data)
    return cls(*state)
