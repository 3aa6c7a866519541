"""What the local commands run: one model's job, from the start to the end."""
