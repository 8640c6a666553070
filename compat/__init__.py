"""What runs on RabbitMQ runs here: other people's suites and applications of ours, on both brokers, in one table."""
