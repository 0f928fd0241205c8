"""Configuration files of NCCL: lines without effect, and values that the environment replaces."""

from collections.abc import Iterator

from busbw.doctor.facts.user_configuration import UserConfiguration
from busbw.doctor.model.check import Check, Evidence, Finding
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nccl_settings import configuration_lines, environment_settings, file_settings, is_name


def _examine(machine: Machine) -> Iterator[Finding]:
    variables = {each.name: each for each in environment_settings(machine)}
    user = machine.fact(UserConfiguration)
    if user.lines is None and (named := variables.get("NCCL_CONF_FILE")):
        yield Finding(severity="risk", problem=f"{named.text} does not exist", evidence=(named.evidence,))
    for path, line in configuration_lines(machine):
        name, equals, _ = line.partition("=")
        if not equals or not is_name(name):
            yield Finding(
                severity="risk",
                problem=f'NCCL ignores the line "{line[:80]}" of {path}',
                evidence=(Evidence(source=path, value=line[:80]),),
                fix=f"write NAME=value without blanks and without export in {path}",
            )
    for setting in file_settings(machine):
        variable = variables.get(setting.name)
        if variable and variable.value != setting.value and not setting.name.startswith("NCCL_DEBUG"):
            yield Finding(
                severity="risk",
                subject=setting.name,
                problem=f"the variable {variable.text} replaces {setting.text} of {setting.origin}",
                evidence=(variable.evidence, setting.evidence),
            )


CHECK = Check(
    name="hidden-nccl-conf",
    area="libraries",
    reads="/etc/nccl.conf; ~/.nccl.conf, or the file that NCCL_CONF_FILE names; the environment",
    rule="Each line sets a variable, and the environment has no other value for it.",
    source="NVIDIA/nccl#1008",
    cost="Jobs run with other settings than the file or the environment suggests.",
    fix="keep one of the two settings",
    examine=_examine,
)
