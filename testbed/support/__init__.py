"""Parts that every room uses: errors, names of hosts and devices, states of runs, children, waits."""
