"""Warning about queries that still run when their program ends.

Spark ends such queries with the driver, silently and with exit code 0: a program that starts a query without waiting
for it may have read nothing.
"""

import atexit
import sys
from typing import Any

from pyspark_penstock.logs import LOG

QUERIES_SHOWN = 3
"""Most queries in the warning."""


def watch_program_end() -> None:
    """Register the check at the end of this process, once, however often this is called."""
    atexit.unregister(warn_of_running_queries)
    atexit.register(warn_of_running_queries)


def warn_of_running_queries() -> None:
    """Log a warning if queries of this program's session run.

    Silent in an interactive interpreter, whose user ends queries on purpose, and after an exception, which has been
    reported.
    """
    if hasattr(sys, "ps1") or hasattr(sys, "last_value"):
        return
    names = _running()
    if not names:
        return
    more = len(names) - QUERIES_SHOWN
    listed = ", ".join(names[:QUERIES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    LOG.warning(
        "penstock: the program ends, and Spark ends the running quer%s %s with the program; to wait for a query, call "
        "its awaitTermination()",
        "y" if len(names) == 1 else "ies",
        listed,
    )


def _running() -> list[str]:
    """Return names of the session's running queries, or their ids; none without a session or its JVM."""
    module: Any = sys.modules.get("pyspark.sql.session")
    session = None if module is None else module.SparkSession._instantiatedSession
    if session is None or session._sc._jsc is None:
        return []
    try:
        return [query.name or query.id for query in session.streams.active]
    except Exception:  # The JVM is gone: py4j raises errors of many classes.
        return []
