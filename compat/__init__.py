"""What runs on RabbitMQ runs here: other people's suites and applications of ours, on both brokers, in one table.

`tests/compat` has our tests of single methods, and `tests/clients` those with real clients (README.md).
"""
