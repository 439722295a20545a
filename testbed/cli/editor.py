"""Help with typing: a commented experiment file, and the completion of shells."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

from captures.rundir import RunLayout
from router.options import Option
from testbed.cli.arguments import add_changes, add_key, overrides
from testbed.cli.documents import SCHEMAS
from testbed.results.folders import SWEEP_TABLE, sweep_folder
from testbed.support.errors import InputError
from testbed.terminal import put
from topos import unknown

_T = TypeVar("_T")
#: Workload -> its section.
_WORKLOADS = {"random": "workload", "attention": "workload.attention", "none": "none"}
#: Section, key, and the default of a new file; None: that of the key.
_ASKED = (("routing", "scheme", None), ("", "duration_s", "600"), ("", "seed", None))
#: An event that is valid in every topology.
_EVENT = 'at_s = 60, action = "node_down", node = 0'


def new_arguments(parser: ArgumentParser) -> None:
    parser.epilog = "On a terminal, the command asks for what the options do not say."
    parser.add_argument("file", type=Path, help="the file, which must not exist yet")
    add_changes(parser)
    add_key(parser, "--scheme", "routing.scheme")
    add_key(parser, "--duration", "duration_s")
    parser.add_argument("--workload", choices=_WORKLOADS, help="who sends and receives (random)")
    parser.add_argument(
        "--event", action="append", metavar="KEYS", help=f"an event as in the file: '{_EVENT}'"
    )


def new_command(arguments: Namespace) -> None:
    """Writes an experiment that `cbcb check` accepts.

    Raises:
        InputError: the file cannot be made, or the experiment is not valid; there is no file then.
    """
    from testbed.experiments.config.hop_limit import load_checked

    path: Path = arguments.file
    try:
        file = path.open("x", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected the name of a new file") from error
    try:
        with file:
            file.write(_answered(arguments))
        load_checked(path, {})
    except BaseException:
        path.unlink()
        raise
    put(f"{path}: written; `cbcb check {path}` says what it would do")


def _answered(arguments: Namespace) -> str:
    """Returns the text of the file, of options and answers."""
    from testbed.cli.documents.experiment_file import described, keys_of
    from testbed.experiments.config.load import paths_from
    from testbed.experiments.config.topology import parse_topology_argument

    given = overrides(arguments)
    events = [_event(text) for text in arguments.event or ()]
    if not any(key.startswith("topology.") for key in given):
        question = "topology: a file, or a generator with its keys"
        given |= paths_from(Path.cwd(), _ask(question, "waxman,50", parse_topology_argument))
    for section, key, default in _ASKED:
        (option,) = (each for each in keys_of(section) if each.key == key)
        if _dotted(section, key) not in given:
            given[_dotted(section, key)] = _ask(
                described(option), default or str(option.default), partial(_valid, option)
            )
    options = Option("workload", "string", choices=_WORKLOADS)
    workload = arguments.workload or _ask(f"workload: {options.expected}", "random", partial(_valid, options))
    while arguments.event is None and (event := _ask(f"an event, such as {_EVENT}", "none", _event)):
        events.append(event)
    if workload == "attention":
        given = {"service.kind": "attention"} | given
    return _text(given, _WORKLOADS[workload], events)


def _ask(question: str, default: str, read: Callable[[str], _T]) -> _T:
    """Returns what `read` makes of an answer, without a terminal of the default.

    Asks again as long as `read` raises ValueError or InputError.
    """
    while sys.stdin.isatty():
        try:
            return read(input(f"{question} [{default}]: ").strip() or default)
        except EOFError:
            raise KeyboardInterrupt from None
        except (InputError, ValueError) as error:
            put(str(error))
    return read(default)


def _dotted(section: str, key: str) -> str:
    """Returns a key of a section ("": the top level) as --set names it."""
    return f"{section}.{key}" if section else key


def _valid(option: Option, text: str) -> str:
    from testbed.experiments.config.topology import parse_value

    option.convert(parse_value(text))
    return text


def _event(text: str) -> dict[str, Any]:
    """Returns the table of an event, whose keys are those of its action; empty for "none".

    Raises:
        InputError: the text is no such table.
    """
    from testbed.experiments.config.events import read_event
    from testbed.experiments.config.schema import Problems
    from testbed.experiments.config.topology import parse_value

    if text == "none":
        return {}
    table = parse_value(f"{{ {text} }}")
    if not isinstance(table, dict):
        raise InputError(f"event {text!r}: expected keys and values, such as {_EVENT}")
    problems = Problems(f"event {text!r}")
    read_event(problems, "", table, None)
    problems.raise_if_any()
    return table


def _text(given: Mapping[str, str], workload: str, events: Iterable[Mapping[str, Any]]) -> str:
    """The file, with every key of its sections; a key that is not given has its default behind a #.

    Raises:
        InputError: a given key belongs to none of the sections, or its value is not valid.
    """
    from testbed.cli.documents.experiment_file import described, docs_of, entries_of, keys_of, toml_text
    from testbed.experiments.config import SECTIONS
    from testbed.experiments.config.events import ACTION
    from testbed.experiments.config.topology import FILE_OPTIONS, parse_value

    schema = (SCHEMAS / "experiment.json").as_uri()
    lines = [f"#:schema {schema}", "# A key behind a # has its default, if any."]
    values, known = {key: parse_value(text) for key, text in given.items()}, []
    for section in ("", *(section for section in SECTIONS if section != "events")):
        off = "#" if section.startswith("workload") and section != workload else ""
        lines += ["", f"{off}[{section}]"] if section else []
        choice = keys_of(section)[0]
        named = str(values.get(f"{section}.{choice.key}", choice.default))
        options = (*keys_of(section), *entries_of(section).get(named, ()))
        for option in FILE_OPTIONS if section == "topology" and "topology.file" in values else options:
            key = _dotted(section, option.key)
            known += [] if off else [key]
            is_given = key in values and not off
            try:
                value = option.convert(values.pop(key)) if is_given else option.default
            except ValueError as error:
                raise InputError(f"{key}: {error}") from error
            lines += wrap(described(option), 110, initial_indent="# ", subsequent_indent="# ")
            shown = "" if value is None else toml_text(value)
            lines.append(f"{'' if is_given else '#'}{option.key} = {shown}".rstrip())
    for key in values:
        raise InputError(unknown("key", key, known))
    keys, docs = ", ".join(option.key for option in keys_of("events")), docs_of(ACTION)
    lines += ["", f"# Events: [[events]] with {keys} and the keys in brackets."]
    for action, options in entries_of("events").items():
        text = f"{action} ({', '.join(option.key for option in options)}): {docs[action]}"
        lines += wrap(text, 110, initial_indent="# ", subsequent_indent="#   ")
    for event in events:
        lines += ["", "[[events]]", *(f"{key} = {toml_text(value)}" for key, value in event.items())]
    return "\n".join(lines) + "\n"


def completion_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        'bash and zsh: eval "$(cbcb completion bash)", with the name of the shell, in ~/.bashrc or ~/.zshrc; '
        "fish: cbcb completion fish > ~/.config/fish/completions/cbcb.fish"
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def completion_command(arguments: Namespace) -> None:
    """Prints what the shell runs so that it completes `cbcb`."""
    from argcomplete.shell_integration import shellcode

    put(shellcode(["cbcb"], shell=arguments.shell))


def complete(parser: ArgumentParser) -> None:
    """Answers a shell that completes a command line, and ends the process."""
    from argcomplete import autocomplete

    autocomplete(parser, default_completer=_completions)


def _completions(prefix: str, action: Action, parsed_args: Namespace, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    name = action.option_strings[-1] if action.option_strings else action.dest
    is_file = action.type is Path or name in ("experiment", "run", "--topology")
    with suppress(OSError, ValueError):
        return [*_names(name, parsed_args), *(FilesCompleter()(prefix) if is_file else ())]
    return []


def _names(argument: str, arguments: Namespace) -> Iterable[str]:
    """Yields the names that an argument takes, other than those of files."""
    from testbed.support.run_state import live_runs

    match argument:
        case "experiment":
            names = (each.name for each in SCHEMAS.parent.iterdir())
            yield from (name.removesuffix(".toml") for name in names if name.endswith(".toml"))
        case "run" | "compared":
            yield from (path.name for path in arguments.runs.iterdir() if RunLayout(path).manifest.exists())
        case "sweep":
            yield from (
                path.parent.name for path in sweep_folder(arguments.runs, "").glob(f"*/{SWEEP_TABLE}")
            )
        case "figure":
            from testbed.evaluation.figures.reproduction import FIGURES

            yield from FIGURES
        case "--run":
            yield from (state.tag for state in live_runs())
        case "node" | "--node" | "u" | "v" | "ends":
            from topos.loaders import load

            for state in live_runs():
                nodes = load(RunLayout(Path(state.run_dir)).topology).nodes
                yield from (node.name or str(node.id) for node in nodes)
        case "--topology":
            from testbed.experiments.config.topology import shipped
            from topos.generators import GENERATORS

            yield from (*(f"{name}," for name in GENERATORS), *shipped("topologies"))
        case "--set":
            from testbed.cli.documents.experiment_file import any_of, entries_of, keys_of
            from testbed.experiments.config import SECTIONS

            for section in ("", *(name for name in SECTIONS if name != "events")):
                for option in (*keys_of(section), *any_of(entries_of(section))):
                    yield f"{_dotted(section, option.key)}="
