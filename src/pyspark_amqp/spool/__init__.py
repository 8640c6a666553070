"""Spool of a source: messages of a broker on this machine's disk, with numbers of their own.

A broker of AMQP cannot read a range twice, as Spark requires. A separate process consumes, writes messages to segments
and acknowledges messages that Spark has made durable. The process needs neither PySpark nor a JVM.

``rows`` builds record batches, and ``frames`` and ``log`` store them. ``folder`` has the lock and the owner, and
``duplicates`` recognises messages that arrive twice. ``state`` plans batches, ``consumer`` talks to the broker and
``server`` to the reader. ``folder`` has the lock and the owner, ``tags`` and ``duplicates`` the unacknowledged
deliveries. ``state`` plans batches, ``consumer`` talks to the broker and ``server`` to the reader.
"""
