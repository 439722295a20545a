"""The emulated network: Mininet hosts, Open vSwitch switches, links, and clean-up."""
