"""A model file becomes a Relax module."""
