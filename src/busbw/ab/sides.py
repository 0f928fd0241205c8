"""Parses the sides of an A/B measurement: environment variables, preloaded libraries, image and engine flags."""

import re
import shlex
from dataclasses import dataclass

from busbw import engine
from busbw.errors import UsageError
from busbw.support.secret_variables import REDACTED, may_be_secret

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_RESERVED_FLAGS = {"--records", "-J", "--output_file"}


@dataclass(frozen=True)
class SideSpec:
    """Settings of one side."""

    text: str
    """The settings as one line, without the values of secret variables. Empty if the side changes nothing."""
    environment: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    """Engine flags of this side. They come after the common flags of both sides."""
    image: str = ""
    """Container image with the programs on its PATH. Empty to use the programs of this machine."""

    @property
    def description(self) -> str:
        """Text of the side for tables and messages."""
        return self.text or "nothing changed"


def parse_side(option: str, text: str) -> SideSpec:
    """Parses a side: `KEY=VALUE ...`, `--preload LIBRARY`, `--image IMAGE`, and flags of the engine (`-z 1`).

    Args:
        option: Option that contains the side, for messages: '--a'.
        text: Words of the side, quoted as for a shell.

    Raises:
        UsageError: A word is invalid or a library does not exist.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option} '{text}': {error}", remedy="close every quotation mark") from error
    environment: dict[str, str] = {}
    flags: list[str] = []
    preloads: list[str] = []
    image = ""
    remaining_words = iter(words)
    for word in remaining_words:
        name, equals, value = word.partition("=")
        may_be_flag_value = bool(flags) and flags[-1].startswith("-")  # only the engine knows which flags have values
        if name in {"--preload", "--image"}:
            if not equals:
                value = next(remaining_words, "")
            if not value:
                raise UsageError(f"{option}: {name} has no value", remedy=f"give {name} VALUE")
            if name == "--image":
                image = value
            else:
                preloads.append(value)
        elif name in _RESERVED_FLAGS:
            raise UsageError(f"{option}: `busbw ab` sets {name} for each block", remedy="remove it")
        elif _ASSIGNMENT.match(word):
            environment[name] = value
        elif word.startswith("-") or may_be_flag_value:
            flags.append(word)
        else:
            raise UsageError(
                f'{option}: "{word}" is neither KEY=VALUE nor a flag',
                remedy="give KEY=VALUE, --preload LIBRARY, --image IMAGE or an engine flag",
            )
    if preloads and image:
        environment["LD_PRELOAD"] = ":".join(filter(None, [*preloads, environment.get("LD_PRELOAD")]))
    elif preloads:  # without an image, the libraries are on this machine, so that their paths can be checked
        environment |= engine.preload_variables(option, preloads, environment)
    return SideSpec(_shown_text(text, words), tuple(environment.items()), tuple(flags), image)


def _shown_text(text: str, words: list[str]) -> str:
    """Returns the words of a side as the user wrote them, or quoted again if a value may be secret."""
    if not any(_may_set_secret(word) for word in words):
        return " ".join(text.split())
    return " ".join(_shown_word(word) for word in words)


def _may_set_secret(word: str) -> bool:
    name, equals, value = word.partition("=")
    return bool(equals) and may_be_secret(name, value)


def _shown_word(word: str) -> str:
    if _may_set_secret(word):
        return f"{word.partition('=')[0]}={REDACTED}"
    return shlex.quote(word)
