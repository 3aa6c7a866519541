"""Jobs, rounds, slots, leases and budgets: the database is the queue."""
