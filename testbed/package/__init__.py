"""The formats `pcap` and `cbcb` as a package of their own."""
