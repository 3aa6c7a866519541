"""The cache as a database inside TVM's own passes."""
