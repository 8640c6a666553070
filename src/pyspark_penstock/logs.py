"""The logger of the data source.

Drivers and executors log under the name ``pyspark_penstock``. A process without a logging configuration, such as
Spark's Python workers, writes warnings to its stderr (the ``lastResort`` handler of the standard library). So the
executor's stderr shows waiting tasks, unless logging is configured otherwise.
"""

import logging

LOG = logging.getLogger("pyspark_penstock")
