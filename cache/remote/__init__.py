"""A coordinator elsewhere, as Python asks it."""
