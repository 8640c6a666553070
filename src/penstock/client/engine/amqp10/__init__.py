"""Engine of AMQP 1.0: a link for each publisher and each receiver."""
