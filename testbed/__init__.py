"""The testbed: experiments, controller, emulated network, workload, oracle, report, command line."""

#: The version of the whole project; pyproject.toml takes it from here.
__version__ = "0.1.0"
