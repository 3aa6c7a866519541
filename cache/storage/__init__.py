"""The database: how it is opened, its tables, and rows that stand for names."""
