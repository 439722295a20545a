"""The Spark data sources `pcap` and `cbcb`: options, views, filters, batch and streaming readers."""
