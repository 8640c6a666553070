"""Spark data source for Penstock queues, for Structured Streaming.

``spark.readStream.format("penstock")`` and ``.writeStream.format("penstock")`` need no registration: Spark looks for a
``DefaultSource`` in every package whose name begins with ``pyspark_``. Every look-up imports all of them, so this
module opens no socket and does not import pyarrow and the client before they are used.
"""

from pyspark_penstock.interpreter import choose_python
from pyspark_penstock.source import PenstockDataSource

DefaultSource = PenstockDataSource

choose_python()

__all__ = ["DefaultSource", "PenstockDataSource"]
