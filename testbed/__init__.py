"""The testbed: experiments, controller, emulated network, workload, oracle, report, command line."""
