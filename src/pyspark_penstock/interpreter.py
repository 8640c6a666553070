"""The Python that Spark runs, for it takes the ``python3`` of the PATH and not that of the driver.

In a virtual environment that is another one, where this package is not installed, and Spark says no more than that
it does not find the data source. Whoever imports this package before the session is made gets the driver's own.
"""

import os
import shutil
import sys
import warnings

VARIABLE = "PYSPARK_PYTHON"


def choose_python() -> None:
    """Have Spark run this Python, where nobody has chosen one; warn if a session runs another one already.

    A program that spark-submit started is left alone: the cluster's settings say there what executors run.
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
    """Tell whether the python3 of the PATH is not the Python of this virtual environment."""
    if sys.prefix == sys.base_prefix:
        return False
    found = shutil.which("python3")
    return found is None or os.path.dirname(os.path.abspath(found)) != os.path.dirname(os.path.abspath(sys.executable))
