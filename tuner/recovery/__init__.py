"""Traces of near programs become candidates for another."""
