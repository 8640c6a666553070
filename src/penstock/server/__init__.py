"""The event loop around the pure packages: sockets, timers, signals and log lines, on asyncio.

Nothing here runs once per message; a read of many frames is one call into the adapter.
"""
