"""The AMQP 0-9-1 codec: method table (`spec`), frames and methods (`codec`), field tables, content headers."""
