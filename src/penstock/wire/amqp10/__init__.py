"""The AMQP 1.0 codec: values, composites (`spec`), frames, the frequent performatives in place, message sections."""
