"""The Spark session: settings, workers, the folder of its files, code shipped to executors."""
