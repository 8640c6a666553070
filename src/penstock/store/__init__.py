"""Stores of messages and definitions (SQLite, PostgreSQL), and the lock of a data directory."""
