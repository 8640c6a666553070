"""Gates other than those of queues: memory, disk, rates, addresses, virtual hosts, operators."""
