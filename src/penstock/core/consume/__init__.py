"""Consuming: sessions, consumers, dispatch, cursors."""
