"""AMQP 1.0: so far the format of its messages."""
