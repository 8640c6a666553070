"""The client with blocking calls: `penstock.sync.connect()` and what it returns."""

from penstock.client.blocking import Connection, Publisher, Receiver, connect

__all__ = ["Connection", "Publisher", "Receiver", "connect"]
