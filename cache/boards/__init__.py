"""Boards: what their agents report, how well they measure, and what became doubtful with them."""
