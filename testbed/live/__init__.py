"""Watching a run: its traffic as it is captured, its deliveries as they are logged, a page, a table."""
