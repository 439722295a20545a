"""A reader of Dockerfile, for a machine without a container engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

#: What Docker and Podman leave a container's root without options.
DEFAULT_CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw"),
    *("setfcap", "setgid", "setpcap", "setuid", "sys_chroot"),
)


@dataclass
class Image:
    """A Dockerfile: variables with their defaults, the base, steps in order, entry point."""

    arguments: dict[str, str] = field(default_factory=dict)
    base: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)
    entry_point: list[str] = field(default_factory=list)
    folder: str = "/"


def read_dockerfile(text: str, **arguments: str) -> Image:
    """Reads a Dockerfile of the instructions ARG, FROM, WORKDIR, COPY, RUN, ENV, ENTRYPOINT and CMD.

    Raises:
        ValueError: another instruction.
    """
    image = Image()
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        match word:
            case "" | "CMD":
                pass
            case _ if word.startswith("#"):
                pass
            case "ARG":
                name, _, default = rest.partition("=")
                image.arguments[name] = arguments.get(name, default)
            case "FROM":
                image.base = rest
                for name, value in image.arguments.items():
                    image.base = image.base.replace(f"${{{name}}}", value)
            case "WORKDIR" | "COPY" | "RUN" | "ENV":
                image.steps.append((word, rest))
                if word == "WORKDIR":
                    image.folder = rest
            case "ENTRYPOINT":
                image.entry_point = json.loads(rest)
            case _:
                raise ValueError(f"Dockerfile:{number}: {word}: an instruction that is not supported here")
    return image
