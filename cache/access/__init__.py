"""Who may ask a coordinator."""
