"""The worker that serves a coordinator's jobs."""
