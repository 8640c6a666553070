"""AMQP 0-9-1: the table of methods (`spec`) and the codec of frames, methods, tables and properties (`codec`)."""
