"""What processes tell each other at once, over Redis where there is one."""
