"""Spool of a source: messages of a broker on this machine's disk, under numbers of their own.

A broker of AMQP cannot read a range twice, as Spark must. A process of its own consumes, writes what comes to segments
and acknowledges what Spark has made durable. It needs neither PySpark nor a JVM.

``rows`` makes record batches, ``frames`` and ``log`` store them, ``folder`` says whose the spool is, ``tags`` and
``duplicates`` know what the broker still waits for, ``state`` plans batches, ``consumer`` talks with the broker and
``server`` with the reader.
"""
