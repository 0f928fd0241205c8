"""Text of a document around its tables: headings, command lines, captions."""

import re
from dataclasses import dataclass

from busbw.readers.tables import collectives
from busbw.readers.tables.facts import TableFacts

_COMMAND = re.compile(r"(?:^|[\s/;&|])([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b(?=\s+-|\s*$)")
"""Program in a command line, and the name of its collective: `./build/all_reduce_perf -b 8`."""
_HEADING = re.compile(r"(?:#{1,6}(?!\d)|%{2,}|={2,}|#{1,6}\s*\d+\.)\s*([^\s#%=].*)$")
"""A heading and its text: `## Results`, `%% 32x H800 %%`, `### 2. Latency`. `#12` is no heading, but an issue."""
_HEADING_END = "#%="
"""Characters that may close a heading."""
_MAX_HEADING_LENGTH = 200
_MAX_COMMAND_LENGTH = 2000
_CAPTION_WORD_COUNTS = range(2, 9)
"""Possible numbers of words of a line that names columns."""
_IN_PLACE_ONLY = re.compile(r"\ball\b.{0,40}\bin-place (?:numbers|results|figures)")
_NUMBER_OF_GPUS = re.compile(
    r"\b(\d{1,6})\s*(?:[x\u00d7*]\s*)?(?:NVIDIA\s+|AMD\s+)?(?:Instinct\s+)?"
    r"(?:[ABHGVPT]\d{2,3}\b|GB\d{3}\b|MI\d{3}\w*|L40S?\b|RTX\b)",
)
"""Number before the name of a GPU: `32x H800`, `8 NVIDIA A100`."""
_NODES_AND_GPUS = re.compile(r"\b(\d{1,5})\s+nodes?\b\D{0,12}?\b(\d{1,2})\s+gpus?\s*(?:/|per)\s*node", re.IGNORECASE)
"""Numbers of nodes and of GPUs per node: `2 nodes, 8 gpus/node`."""


@dataclass
class DocumentContext:
    """Headings and last command line before a table, collected while a document is read."""

    first_heading: str = ""
    heading: str = ""
    """Last heading, with a line about nodes and GPUs below it, if any."""
    command: str = ""
    program: str = ""
    """Program in the last command line: `all_reduce_perf`."""
    in_place_only: bool = False
    """True if the text says that all its figures are in place."""
    caption: tuple[str, ...] = ()
    """Words of the last line that has only words. Such a line may name columns that are side by side."""

    def add_line(self, text: str) -> None:
        """Processes a line outside of tables."""
        words = text.strip("# ").split()
        if len(words) in _CAPTION_WORD_COUNTS and all(word.isidentifier() for word in words):
            self.caption = tuple(words)
        if "_perf" in text and len(programs := set(_COMMAND.findall(text))) == 1:
            (program,) = programs
            if collectives.single_collective_in(program):
                self.program, self.command = f"{program}_perf", text.strip("#$> ")[:_MAX_COMMAND_LENGTH]
        elif match := _HEADING.match(text):
            self.heading = match[1].rstrip(_HEADING_END).rstrip()[:_MAX_HEADING_LENGTH]
            self.first_heading = self.first_heading or self.heading
            self.command = self.program = ""
        elif "in-place" in text and _IN_PLACE_ONLY.search(text):
            self.in_place_only = True
        elif _NODES_AND_GPUS.search(text) and len(text) < _MAX_HEADING_LENGTH:
            self.heading = ": ".join(filter(None, [self.heading.strip(": "), text.strip("*-: ")]))[:_MAX_HEADING_LENGTH]

    def apply_to(self, facts: TableFacts) -> None:
        """Adds the text above a table to its facts."""
        facts.title = self.heading or None
        facts.claimed_gpus = gpus_in(self.heading)
        facts.hint = (
            collectives.single_collective_in(self.program)
            if self.program
            else collectives.single_collective_in(self.heading)
        )
        facts.command = self.command or None
        facts.program = facts.program or self.program or None


def gpus_in(text: str) -> int | None:
    """Returns the number of GPUs in a heading: 32 for "32x H800 NVLink", 8 for "1 node, 8 gpus/node"."""
    if match := _NODES_AND_GPUS.search(text):
        return int(match[1]) * int(match[2])
    match = _NUMBER_OF_GPUS.search(text)
    return int(match[1]) if match else None
