"""Look-ups answered from memory while they hold, and each one counted."""
