"""The format `cbcb` of the installed wheel: Spark finds `DefaultSource` of packages `pyspark_...`."""

from captures.datasource.formats import CbcbSource as DefaultSource

__all__ = ["DefaultSource"]
