"""A candidate becomes a record: built in processes that may die, measured on a board, verified."""
