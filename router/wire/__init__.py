"""The wire format: Ethernet addresses, frames, codec, Scapy layers, Wireshark dissector."""
