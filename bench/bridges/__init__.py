"""Bridges by messages, measured: what a message costs, and the brake through three brokers in a row."""
