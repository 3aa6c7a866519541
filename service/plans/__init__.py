"""Plans: whether what is to be tuned fits what there is for it."""
