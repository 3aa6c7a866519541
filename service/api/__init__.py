"""The coordinator over HTTP: /api/v1, health and metrics."""
