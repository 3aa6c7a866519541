"""A look-up: hits on the whole key, and every miss explained by what is near."""
