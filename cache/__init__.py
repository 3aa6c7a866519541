"""What is stored and asked for.

Names are imported from their modules: who needs only an error or a key loads no database.
"""
