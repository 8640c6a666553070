"""Publishing: producers, admission, held publishes, transactions, dead letters."""
