"""The processes: search worker, board agent, local and emulated boards.

Hands nothing on: a board imports this package with nothing but TVM's runtime installed, and each
name stands in the module of its idea.
"""
