"""Packets of capture files: formats, the compiled walk over records, splitting, opening."""
