"""Schedules become a compiled model."""
