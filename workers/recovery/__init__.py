"""Missing schedules made from near ones, without a search."""
