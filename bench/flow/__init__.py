"""The flow-control scorecard: the same experiments against any AMQP 0-9-1 broker, by URL."""
