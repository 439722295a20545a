"""What is known of a run: oracle, conclusion, report, trace, replay, live view, and the folders of runs."""
