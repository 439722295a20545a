"""The testbed: experiments, controller, emulated network, workload, oracle, report, command line.

In Python, `import testbed` offers what `testbed.api` lists: `testbed.simulate(testbed.experiment())`.
"""

#: The version of the whole project; pyproject.toml takes it from here.
__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """Returns an object of `testbed.api`, which is loaded with the first: the command line loads none."""
    if not name.startswith("_"):
        api = __import__("testbed.api", fromlist=["api"])
        if name in api.__all__:
            found: object = getattr(api, name)
            return found
    raise AttributeError(f"module 'testbed' has no attribute {name!r}")
