"""The processes beside the coordinator's own: workers, and what needs TVM."""
