"""Penstock as a data source of Spark Structured Streaming.

``spark.readStream.format("penstock")`` and ``.writeStream.format("penstock")`` need no registration: Spark looks for
a ``DefaultSource`` in every package whose name begins with ``pyspark_``. It imports them all for that, in
every look-up, so this one opens no socket and leaves pyarrow and the client until they are used.
"""

from pyspark_penstock.interpreter import choose_python
from pyspark_penstock.source import PenstockDataSource

DefaultSource = PenstockDataSource

choose_python()

__all__ = ["DefaultSource", "PenstockDataSource"]
