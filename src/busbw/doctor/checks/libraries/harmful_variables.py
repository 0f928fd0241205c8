"""Variables with values that slow down collectives or put jobs at risk: one check for each variable."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from busbw.doctor.model import Check, Damage, Finding, Machine, Severity
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.traits import has_traits, pcie_gbps
from busbw.doctor.parts.value_patterns import matches

DOCUMENTATION = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


class HarmfulValue(Struct, array_like=True, frozen=True):
    """Row of the table `harmful` of variables.toml, which explains the columns."""

    variable: str
    values: str
    traits: str
    severity: Severity
    effect: str
    source: str
    damage: Literal["", "pcie", "nvls", "half"] = ""

    @property
    def values_text(self) -> str:
        """Values for people: "0 or above 31"."""
        if self.values == "*":
            return "any value"
        return self.values.replace("|", " or ").replace("<", "below ").replace(">", "above ")

    @property
    def effect_sentence(self) -> str:
        """Effect as a sentence, such as "NCCL uses TCP sockets between nodes."."""
        return f"{self.effect[0].upper()}{self.effect[1:]}."


def _damage(row: HarmfulValue, machine: Machine) -> Damage | None:
    """Returns the damage that the row names. None if it names none, or if the rate of the slots is unknown."""
    if row.damage == "pcie":
        rate_gbps = pcie_gbps(machine)
        return None if rate_gbps is None else Damage(fabric_cap_gbps=rate_gbps)
    return {"nvls": Damage(nvls=False), "half": Damage(fabric_share=0.5, nvls=False)}.get(row.damage)


def _examine(rows: tuple[HarmfulValue, ...], machine: Machine) -> Iterator[Finding]:
    setting = read_settings(machine).get(rows[0].variable)
    if setting is None:
        return
    for row in rows:
        if not matches(setting.value, row.values) or not has_traits(machine, row.traits):
            continue
        yield Finding(
            row.severity,
            f"{setting.text}: {row.effect}",
            (setting.evidence,),
            subject=setting.name,
            damage=_damage(row, machine),
            cost=row.effect_sentence,
            fix=setting.fix,
        )
        return  # the first row that matches decides


def _check(rows: tuple[HarmfulValue, ...]) -> Check[Machine]:
    """Makes the check of one variable, with a rule such as "NCCL_NVLS_ENABLE is not 0 on machines with NVLS."."""
    variable = rows[0].variable
    effects = [f"{row.values_text}: {row.effect}" for row in rows]
    rules = [f"not {row.values_text} on machines with {row.traits}".replace("any value", "set") for row in rows]
    return Check(
        name=f"env-{variable.lower().replace('_', '-')}",
        area="libraries",
        reads=f"{variable} in the environment and in NCCL's configuration files",
        rule=f"{variable} is {', '.join(rules)}.",
        source=next((row.source for row in rows if row.source), DOCUMENTATION),
        cost=f"{'; '.join(effects)}." if len(rows) > 1 else rows[0].effect_sentence,
        fix=f"unset {variable}",
        examine=partial(_examine, rows),
    )


HARMFUL_VALUES = msgspec.convert(
    msgspec.toml.decode(Path(__file__).with_name("variables.toml").read_bytes())["harmful"],
    type=tuple[HarmfulValue, ...],
)
# The rows of one variable are adjacent in variables.toml, as `groupby` requires.
CHECKS = tuple(_check(tuple(rows)) for _, rows in groupby(HARMFUL_VALUES, key=lambda row: row.variable))
