"""The board agent: keeps a board at its tracker, and reports its state to the coordinator."""
