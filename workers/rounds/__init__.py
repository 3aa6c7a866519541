"""Rounds: proposed, claimed, built, measured and verified on a workbench."""
