"""Errors that the command line turns into one clear line and an exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from captures.rundir.files import RunFolderError


class TestbedError(Exception):
    """Something the user can act on. `status` is the exit status (2: bad input, 3: machine)."""

    __test__ = False  # pytest: not a test class
    status = 1


class InputError(TestbedError):
    """Bad input: an argument, an experiment file, a run folder."""

    status = 2


class MachineError(TestbedError):
    """This machine lacks something; the message says what, and the command that mends it."""

    status = 3


class RunError(TestbedError):
    """A run could not go on: a part of it died or did not become ready in time."""

    status = 1


@contextmanager
def run_folder_errors() -> Iterator[None]:
    """Turns the error of a run folder that is not whole into an `InputError`, for the command line.

    Raises:
        InputError: in place of a `RunFolderError`.
    """
    try:
        yield
    except RunFolderError as error:
        raise InputError(str(error)) from error
