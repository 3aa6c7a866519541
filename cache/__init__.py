"""What is stored and asked for.

Names are imported from their modules: whoever needs only an error or a key does not load a database.
"""
