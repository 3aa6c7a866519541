"""Errors as documents of type application/problem+json."""
