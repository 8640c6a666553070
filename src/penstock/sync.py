"""The client with blocking calls: `penstock.sync.connect()` and what it returns."""

from penstock.client.blocking import Connection, Events, Publisher, Receiver, Transaction, connect

__all__ = ["Connection", "Events", "Publisher", "Receiver", "Transaction", "connect"]
