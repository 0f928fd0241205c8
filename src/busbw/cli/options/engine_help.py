"""Reads the engine's `--help`, which its flag table writes: names, values and help of each flag."""

import re
from dataclasses import dataclass

from busbw import engine

_FLAG = re.compile(r"  (?:(?P<short>-\w), |    )(?P<long>--[\w-]+)(?: (?P<placeholder>\S+))?\s{2,}(?P<help>.+)")
"""Line of a flag: "  -b, --minbytes SIZE  Smallest size". Without a short name, four spaces take its place."""
_CHOICE_PLACEHOLDERS = ("TYPE", "OP")
"""Placeholders of flags with a list of values at the start of their help."""
_FILE_PLACEHOLDERS = ("FILE", "PATH")


@dataclass(frozen=True)
class EngineFlag:
    """One flag of the engine's programs."""

    short: str
    """Short name such as -b. Empty for a flag with a long name only."""
    long: str
    """Long name such as --minbytes."""
    placeholder: str
    """Placeholder of the value, such as SIZE. Empty if the flag takes none."""
    help: str

    @property
    def names(self) -> tuple[str, ...]:
        """Short name, if there is one, and long name."""
        return (self.short, self.long) if self.short else (self.long,)

    @property
    def takes_file(self) -> bool:
        """True if the value is a path."""
        return self.placeholder in _FILE_PLACEHOLDERS

    @property
    def values(self) -> tuple[str, ...]:
        """All allowed values: 0|1, 0..3, or the list in the help. Empty if they cannot be listed."""
        if self.placeholder in _CHOICE_PLACEHOLDERS:
            return tuple(self.help.partition(" (default")[0].split())
        if limits := re.fullmatch(r"(\d)\.\.(\d)", self.placeholder):
            return tuple(str(number) for number in range(int(limits[1]), int(limits[2]) + 1))
        return tuple(self.placeholder.split("|")) if "|" in self.placeholder else ()


@dataclass(frozen=True)
class EngineHelp:
    """The engine's help, divided into its parts."""

    summary: str
    """Sentence that says what every program does."""
    sections: dict[str, tuple[EngineFlag, ...]]
    """Flags by heading, in the order of the help. The heading is empty for flags without one."""
    notes: tuple[str, ...]
    """Sentences of the paragraphs after the flags: environment, jobs, exit codes."""

    @property
    def flags(self) -> tuple[EngineFlag, ...]:
        """All flags."""
        return tuple(flag for flags in self.sections.values() for flag in flags)


def parse_help(text: str) -> EngineHelp:
    """Divides the output of `--help`.

    Args:
        text: Blocks, separated by empty lines. The first block has usage, purpose, summary and perhaps an example, one
            per line. Each further block is either a heading with flags, or a paragraph.
    """
    beginning, *blocks = text.strip().split("\n\n")
    _usage, _purpose, summary, *_example = beginning.splitlines()
    sections: dict[str, tuple[EngineFlag, ...]] = {}
    notes: list[str] = []
    for block in blocks:
        lines = block.splitlines()
        flags = tuple(_flag(match) for line in lines if (match := _FLAG.fullmatch(line)))
        if flags:
            heading = "" if lines[0].startswith(" ") else lines[0].rstrip(":")
            sections[heading] = flags
        else:
            notes += _sentences(" ".join(lines))
    return EngineHelp(summary, sections, tuple(notes))


def read_help(program: str = "") -> EngineHelp:
    """Returns the help of a program of the engine in use, see `engine.help_text`.

    Raises:
        BusbwError: The engine is not found or fails.
    """
    return parse_help(engine.help_text(program))


def _sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)


def _flag(match: re.Match[str]) -> EngineFlag:
    return EngineFlag(match["short"] or "", match["long"], match["placeholder"] or "", match["help"])
