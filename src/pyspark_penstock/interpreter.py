"""Choice of the Python interpreter that Spark's workers run.

Spark starts the ``python3`` of the PATH and not the driver's. With a virtual environment this package may be missing
there, and Spark reports only that it cannot find the data source. Importing this package before the session is created
selects the driver's interpreter.
"""

import os
import shutil
import sys
import warnings

VARIABLE = "PYSPARK_PYTHON"


def choose_python() -> None:
    """Make Spark use this interpreter if none was chosen; warn if a session already uses another.

    Programs started by spark-submit are not changed: the cluster's settings choose the executors' interpreter.
    """
    if VARIABLE in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ or not _differs():
        return
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        os.environ[VARIABLE] = sys.executable
        return
    warnings.warn(
        f"Spark runs {context.pythonExec} ({shutil.which('python3')}), not {sys.executable}: import pyspark_penstock "
        f"before the session is made, or set {VARIABLE}, else Spark does not find the data source penstock",
        stacklevel=3,
    )


def _differs() -> bool:
    """Return whether the python3 of the PATH is not the Python of this virtual environment."""
    if sys.prefix == sys.base_prefix:
        return False
    found = shutil.which("python3")
    return found is None or os.path.dirname(os.path.abspath(found)) != os.path.dirname(os.path.abspath(sys.executable))
