"""The format `pcap` of the installed wheel: Spark finds `DefaultSource` of packages `pyspark_...`."""

from captures.datasource.formats import PcapSource as DefaultSource

__all__ = ["DefaultSource"]
