"""The commands by which a user changes and enters a running emulation: `cbcb exec shell link node cli`."""
