"""Timeline of one pipelined step: what every rank runs in which order, and when."""
