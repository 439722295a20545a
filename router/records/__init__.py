"""The records that routers and applications leave in files: their fields, and the way they are written."""
