"""The logger of the data source.

Drivers and executors log under the name ``pyspark_penstock``. A process without a logging configuration, as Spark's
Python workers are, writes warnings to its stderr (the ``lastResort`` handler of the standard library). So a task that
waits is seen in the executor's stderr, as long as nobody configures otherwise.
"""

import logging

LOG = logging.getLogger("pyspark_penstock")
