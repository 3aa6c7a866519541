"""What the board server consists of.

It runs in the emulated guest too, with nothing but the standard library and TVM's runtime, so
nothing here imports anything else of Tunebook.
"""
