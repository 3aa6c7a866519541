"""A trace, which is untrusted code, is replayed, read and written."""
