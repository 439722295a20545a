"""Commands of `cbcb` within the process of the tests; their arguments may be paths."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testbed.cli.main import main


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must succeed, and returns its standard output."""

    def command(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    return command


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must end with status 2, and returns its standard error."""

    def command(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 2
        return capsys.readouterr().err

    return command
