"""Help of all commands and programs as data, from the options of `busbw` and the engine's flag table.

tools/man_pages.py and tools/docs_site.py write this data in their formats.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from busbw.cli.main import cli
from busbw.cli.options.engine_help import EngineFlag, EngineHelp, read_help
from busbw.collectives import COLLECTIVES, COMM_OPS

ENGINE = "busbw-engine"
"""Name of the page of the engine's programs."""


@dataclass(frozen=True)
class OptionList:
    """Options under one heading."""

    heading: str
    options: tuple[tuple[str, str], ...]
    """Names with placeholder, and help, of each option."""


@dataclass(frozen=True)
class CommandReference:
    """Help of one command or program."""

    name: str
    """Words that call it: "busbw launch slurm"."""
    usage: tuple[str, ...]
    """Lines with the name and arguments of the command."""
    paragraphs: tuple[str, ...]
    """Description. The first paragraph is the summary."""
    lists: tuple[OptionList, ...]
    """Options and commands."""
    notes: tuple[str, ...]
    """Paragraphs after the options."""


def command_references() -> Iterator[CommandReference]:
    """Yields `busbw` and all its commands, each group before its commands."""
    yield from _references(cli, click.Context(cli, info_name="busbw", **cli.context_settings))


def engine_reference() -> CommandReference:
    """Returns the help of the programs of collectives, which have the same flags.

    Raises:
        BusbwError: The engine is not found.
    """
    engine_help = read_help()
    return CommandReference(
        name=ENGINE,
        usage=tuple(f"{collective}_perf [options]" for collective in COLLECTIVES),
        paragraphs=(engine_help.summary,),
        lists=_flag_lists(engine_help),
        notes=engine_help.notes,
    )


def comm_ops_reference() -> CommandReference:
    """Returns the help of comm_ops_perf, which has other flags.

    Raises:
        BusbwError: The engine is not found.
    """
    engine_help = read_help(COMM_OPS)
    return CommandReference(
        name=f"{COMM_OPS}_perf",
        usage=(f"{COMM_OPS}_perf TESTS [options]",),
        paragraphs=(engine_help.summary,),
        lists=_flag_lists(engine_help),
        notes=(),
    )


def _flag_lists(engine_help: EngineHelp) -> tuple[OptionList, ...]:
    return tuple(
        OptionList(heading or "Information", tuple(map(_flag_entry, flags)))
        for heading, flags in engine_help.sections.items()
    )


def _references(command: click.Command, context: click.Context) -> Iterator[CommandReference]:
    """Yields the command, then its commands if it is a group."""
    options = [
        names_and_help
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and (names_and_help := parameter.get_help_record(context))
    ]
    lists = [OptionList("Options", tuple(options))]
    children: list[tuple[click.Command, click.Context]] = []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is None:
                raise LookupError(f"{context.command_path} has no command {name}")
            children.append((child, click.Context(child, info_name=name, parent=context)))
        entries = ((child_context.command_path, _paragraphs(child.help)[0]) for child, child_context in children)
        lists.append(OptionList("Commands", tuple(entries)))
    yield CommandReference(
        name=context.command_path,
        usage=(" ".join([context.command_path, *command.collect_usage_pieces(context)]),),
        paragraphs=_paragraphs(command.help),
        lists=tuple(lists),
        notes=_paragraphs(command.epilog),
    )
    for child, child_context in children:
        yield from _references(child, child_context)


def _paragraphs(text: str | None) -> tuple[str, ...]:
    """Returns the paragraphs, each as one line, without click's mark for paragraphs that keep their lines."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text or "").strip())
    return tuple(" ".join(block.replace("\b", "").split()) for block in blocks if block.strip())


def _flag_entry(flag: EngineFlag) -> tuple[str, str]:
    """Returns the names of a flag with its placeholder, and its help."""
    return f"{', '.join(flag.names)} {flag.placeholder}".strip(), flag.help
