"""Consuming: sessions, consumers, dispatch."""
