"""Server: the asyncio event loop around the pure packages, with sockets, timers, signals and logs.

No code here runs once per message: a read of many frames is one call into the protocol.
"""
