"""Boards: this machine, an emulated one, and those behind a tracker."""
