"""What is stored, a page at a time."""
