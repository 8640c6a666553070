"""The driver of the broker: one turn of connections, deliveries and effects, without I/O."""
