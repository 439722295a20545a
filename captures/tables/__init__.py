"""The tables of an accounted run: the catalogue of their columns, where they are kept, queries."""
