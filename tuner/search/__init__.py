"""Candidates for a task are searched for, and tasks share one budget."""
