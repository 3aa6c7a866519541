"""A night: what nightly.toml says, what the coordinator is asked to do, and what came of it."""
