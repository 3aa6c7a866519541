"""Addresses: what is asked and what is answered at each."""
