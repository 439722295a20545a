"""The Spark data sources for captures: options, views, filters pushed down, batch and streaming readers."""
