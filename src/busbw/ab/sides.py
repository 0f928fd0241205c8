"""What a side of an A/B measurement changes: variables, a preloaded library, options of the engine."""

import re
import shlex
from dataclasses import dataclass

from busbw import engine
from busbw.errors import UsageError

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_OURS = {"--records", "-J", "--output_file"}


@dataclass(frozen=True)
class SideSpec:
    """One side, understood."""

    text: str
    """As it was written; empty for what is there anyway."""
    environment: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    """For the engine, after those of both sides."""
    image: str = ""
    """Of a container that has the programs on its path; empty for those of this machine."""

    @property
    def description(self) -> str:
        """For a person."""
        return self.text or "nothing changed"


def parse_side(option: str, text: str) -> SideSpec:
    """Understands a side: `KEY=VALUE ...`, `--preload LIBRARY`, `--image IMAGE`, and options of the engine (`-z 1`).

    Args:
        option: The option that it stands in, for complaints: '--a'.
        text: Its words, quoted as for a shell.

    Raises:
        UsageError: A word is none of these, or asks for what cannot be had.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option} '{text}': {error}", remedy="close every quotation mark") from error
    environment: dict[str, str] = {}
    flags: list[str] = []
    preloads: list[str] = []
    image = ""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in {"--preload", "--image"}:
            value = value if equals else next(rest, "")
            if not value:
                raise UsageError(f"{option}: {name} has no value", remedy=f"give {name} VALUE")
            if name == "--image":
                image = value
            else:
                preloads.append(value)
        elif name in _OURS:
            raise UsageError(f"{option}: {name} is set for each block by ab itself", remedy="leave it out")
        elif _ASSIGNMENT.match(word):
            environment[name] = value
        elif word.startswith("-") or (flags and flags[-1].startswith("-")):
            flags.append(word)
        else:
            raise UsageError(
                f'{option}: "{word}" is neither KEY=VALUE nor an option',
                remedy="give KEY=VALUE, --preload PATH, --library PATH or an option of the engine",
            )
    if preloads and image:  # there the paths are its own, and what is preloaded here has no part
        environment["LD_PRELOAD"] = ":".join([*preloads, *filter(None, [environment.get("LD_PRELOAD")])])
    elif preloads:
        environment |= engine.preload(option, preloads, environment)
    return SideSpec(" ".join(text.split()), tuple(environment.items()), tuple(flags), image)
