"""Loads and experiments of `penstock bench`: any AMQP broker by its URL, driven by the client of this package."""
