"""MetaSchedule's files, read and written as text."""
