"""AMQP 0-9-1 spoken to the broker: connections, channels and their methods, as RabbitMQ's clients expect them."""
