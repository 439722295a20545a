"""What the other rooms share: errors, names of hosts and devices, states of runs, child processes, waits."""
