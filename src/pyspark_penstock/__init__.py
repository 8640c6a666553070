"""Spark data source for Penstock queues, for Structured Streaming.

``spark.readStream.format("penstock")`` and ``.writeStream.format("penstock")`` need no registration: Spark looks for a
``DefaultSource`` in every package whose name begins with ``pyspark_``. Every look-up imports all of them, so this
module imports PySpark, pyarrow and the client only at first use.
"""

from typing import TYPE_CHECKING, Any

from pyspark_penstock.interpreter import choose_python
from pyspark_penstock.program_end import watch_program_end

if TYPE_CHECKING:
    from pyspark_penstock.listener import ProgressListener
    from pyspark_penstock.progress_metrics import source_metrics
    from pyspark_penstock.source import PenstockDataSource
    from pyspark_penstock.source import PenstockDataSource as DefaultSource

choose_python()
watch_program_end()

__all__ = ["DefaultSource", "PenstockDataSource", "ProgressListener", "source_metrics"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name == "ProgressListener":
        from pyspark_penstock.listener import ProgressListener

        return ProgressListener
    if name == "source_metrics":
        from pyspark_penstock.progress_metrics import source_metrics

        return source_metrics
    if name in __all__:
        try:
            from pyspark_penstock.source import PenstockDataSource
        except ModuleNotFoundError as error:
            if error.name != "pyspark.sql.datasource":
                raise
            raise ImportError(
                "this PySpark has no data sources in Python; the penstock source needs PySpark 4.2 or later"
            ) from None

        return PenstockDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
