"""AMQP 0-9-1 protocol: connections, channels and methods, compatible with RabbitMQ's clients."""
