"""Engine of AMQP 0-9-1 (RabbitMQ's dialect): a channel for each publisher and each receiver."""
