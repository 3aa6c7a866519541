"""A Relax module becomes tasks, each with its key and what its program is like."""
