"""MetaSchedule's database files are read and written; nothing in them is trusted."""
