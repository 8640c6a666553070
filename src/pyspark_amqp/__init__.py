"""Spark source for the queues of any AMQP broker, through a spool on the disk.

``spark.readStream.format("amqp")`` needs no registration: Spark looks for a ``DefaultSource`` in every package whose
name begins with ``pyspark_``. The spool's process imports this package too, without PySpark: the source is loaded on
first use.
"""

from typing import TYPE_CHECKING, Any

from pyspark_penstock.interpreter import choose_python
from pyspark_penstock.program_end import watch_program_end

if TYPE_CHECKING:
    from pyspark_amqp.source import AmqpDataSource
    from pyspark_amqp.source import AmqpDataSource as DefaultSource

choose_python()
watch_program_end()

__all__ = ["AmqpDataSource", "DefaultSource"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in __all__:
        from pyspark_amqp.source import AmqpDataSource

        return AmqpDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
