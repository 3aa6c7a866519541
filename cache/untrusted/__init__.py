"""What comes from outside and is run or replayed only where it is on a list."""
