"""A small synchronous client of AMQP 0-9-1, for the command line and for Spark.

It rests on the codecs alone and never imports the broker.
"""
