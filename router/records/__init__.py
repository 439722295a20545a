"""The records that routers and applications write to files: their fields and their encoding."""
