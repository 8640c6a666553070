"""AMQP 1.0 protocol: connections, sessions, links and their messages."""
