"""Capture files of any origin: formats, the reader, the compiled walk over records, listing, opening."""
