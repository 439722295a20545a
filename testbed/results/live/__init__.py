"""The live view of a run: captured traffic and logged deliveries, as a page and as a table."""
