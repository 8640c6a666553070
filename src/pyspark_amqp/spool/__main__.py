"""Process of a spool: ``python -m pyspark_amqp.spool``, started by the reader."""

from pyspark_amqp.spool.server import main

main()
