"""`make demo`: real flights through a bounded queue into Spark, with figures and a picture of the queue at the end.

`run` leads: a broker, several publishers, a Spark pipeline and a consumer of its summaries, each a process of its own.
"""
