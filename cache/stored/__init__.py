"""Models, workloads and records as the database has them."""
