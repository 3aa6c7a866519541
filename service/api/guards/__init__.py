"""What every request passes: limits, hosts, tokens, and the log."""
