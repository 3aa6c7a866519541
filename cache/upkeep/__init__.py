"""Looking after the database: backups, and going back to an older schema."""
