"""What was looked up, what was missed, and what workers did."""
