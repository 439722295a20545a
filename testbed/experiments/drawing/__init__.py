"""Random messages and predicates: of the testbed's vocabulary, or of distributions in files."""
