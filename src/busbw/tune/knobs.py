"""Candidate settings from knobs.toml, or from the user's `--knob`."""

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from busbw.errors import UsageError

Setting: TypeAlias = tuple[tuple[str, str], ...]
"""Environment variables that are set together: pairs of name and value, ordered by name."""


def setting_text(setting: Setting) -> str:
    """Returns a setting as shell assignments: 'NCCL_ALGO=Ring NCCL_PROTO=LL'."""
    return " ".join(f"{name}={value}" for name, value in setting)


class Knob(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One tunable factor with the settings to try. knobs.toml explains the fields."""

    collectives: tuple[str, ...] = ()
    ranks_on: Literal["any", "one host", "several hosts"] = "any"
    goes_to: Literal["environment", "tuner"] = "environment"
    source: str
    note: str
    settings: tuple[dict[str, str], ...]


class _KnobFile(Struct, frozen=True, forbid_unknown_fields=True):
    knob: tuple[Knob, ...]


@dataclass(frozen=True)
class Candidate:
    """One setting of one knob."""

    setting: Setting
    goes_to: Literal["environment", "tuner"]
    """Output file if the setting is faster: environment file for all sizes, or tuner file by size."""

    @property
    def text(self) -> str:
        """Shell assignments."""
        return setting_text(self.setting)


_TUNER_VARIABLES = {"NCCL_ALGO", "NCCL_PROTO"}
"""Variables with a field in the tuner file."""
_KNOB_OPTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)


def load_knobs() -> tuple[Knob, ...]:
    """Reads the knobs of knobs.toml."""
    return msgspec.toml.decode((files("busbw.tune") / "knobs.toml").read_bytes(), type=_KnobFile).knob


def default_candidates(backend: str, collective: str | None, hosts: int) -> list[Candidate]:
    """Returns the candidates of knobs.toml for a backend, a collective and a number of hosts.

    Args:
        backend: Name of the backend.
        collective: Collective that is measured. None: a step of a trace, which may have any collectives.
        hosts: Number of hosts.

    Raises:
        UsageError: No knob is known for the backend.
    """
    scope = "one host" if hosts == 1 else "several hosts"
    if backend != "nccl":
        raise UsageError(
            f"no knob is known for {collective or 'a step'} on the backend {backend}",
            remedy="name settings with --knob NAME=VALUE,VALUE",
        )
    candidates: list[Candidate] = []
    for knob in load_knobs():
        has_collective = not knob.collectives or collective is None or collective in knob.collectives
        if knob.ranks_on in ("any", scope) and has_collective:
            candidates += [Candidate(tuple(sorted(setting.items())), knob.goes_to) for setting in knob.settings]
    return candidates


def parse_knobs(texts: tuple[str, ...]) -> list[Candidate]:
    """Parses the user's knobs: 'NCCL_ALGO=Ring,Tree' gives two candidates.

    Raises:
        UsageError: A text has no name or no value, or a candidate is named twice.
    """
    candidates: list[Candidate] = []
    for text in texts:
        match = _KNOB_OPTION.fullmatch(text)
        values = [value.strip() for value in match[2].split(",")] if match else []
        if match is None or not all(values):
            raise UsageError(f'--knob "{text}" is not NAME=VALUE,VALUE', remedy="write it as NCCL_ALGO=Ring,Tree")
        goes_to: Literal["environment", "tuner"] = "tuner" if match[1] in _TUNER_VARIABLES else "environment"
        candidates += [Candidate(((match[1], value),), goes_to) for value in values]
    if duplicates := [candidate.text for candidate in candidates if candidates.count(candidate) > 1]:
        raise UsageError(f"--knob names {duplicates[0]} twice", remedy="name each value once")
    return candidates
