"""Entry point of the controller process: `python -m testbed.controller CONFIG.json` (see `settings`)."""

from __future__ import annotations

import signal
import sys
import warnings
from pathlib import Path

from router.namespaces import die_with
from testbed.controller.settings import Settings, read_settings
from testbed.errors import InputError


def main(arguments: list[str]) -> int:
    """Runs the controller; returns the exit status (2: the configuration cannot be used)."""
    if len(arguments) != 1:
        print("usage: python -m testbed.controller CONFIG.json", file=sys.stderr)
        return 2
    try:
        settings: Settings = read_settings(Path(arguments[0]))
    except InputError as error:
        print(error, file=sys.stderr)
        return error.status
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the runner, which then ends this process
    if settings.parent_pid is not None:
        try:
            die_with(settings.parent_pid, signal.SIGTERM)
        except ProcessLookupError as error:
            print(error, file=sys.stderr)
            return 1
    # Ryu has no other event library; the warning would only hide the last lines of this process.
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # Imported late: importing Ryu takes half a second, and a wrong configuration is reported without it.
    from testbed.controller.app import run

    return run(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
