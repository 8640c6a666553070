"""Client of AMQP 1.0 and 0-9-1: one engine for each protocol, and two shells around them.

`aio` has the shell for asyncio, and `blocking` the shell with blocking calls. `penstock` and `penstock.sync` export
their names.
"""
