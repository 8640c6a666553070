"""Persistence: encoding of durable objects for the store, and recovery."""
