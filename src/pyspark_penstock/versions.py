"""Versions of PySpark, and the features that older ones lack.

Sources need `latestOffset(start, limit)`, by which Spark reports durable messages: PySpark 4.2. Sinks of streams need
Arrow batches: PySpark 4.1. Sinks of batch jobs work from PySpark 4.0 on.
"""

import importlib
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSourceArrowWriter

from pyspark_penstock.errors import SparkSourceError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:  # PySpark 4.0: `check_stream_sink` refuses the sink before it is used.
        DataSourceStreamArrowWriter = DataSourceArrowWriter

__all__ = ["DataSourceStreamArrowWriter", "check_source", "check_stream_sink"]


def check_source(source: str) -> None:
    """Raise `SparkSourceError` if this PySpark cannot have a source; `source` is its format."""
    try:
        importlib.import_module("pyspark.sql.streaming.datasource")
    except ImportError:
        raise SparkSourceError(
            f"PySpark {pyspark.__version__} does not say to a source in Python which batches are durable, so no "
            f"message could be settled; the {source} source needs PySpark 4.2 or later"
        ) from None


def check_stream_sink() -> None:
    """Raise `SparkSourceError` if this PySpark cannot have the sink of a stream."""
    stream: type = DataSourceStreamArrowWriter
    if stream is DataSourceArrowWriter:
        raise SparkSourceError(
            f"PySpark {pyspark.__version__} gives a sink in Python no Arrow batches of a stream; the penstock sink "
            "needs PySpark 4.1 or later for writeStream (write works)"
        )
