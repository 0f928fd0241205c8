"""Slurm's own view of this node: its state, and the GPUs that it may grant."""

import re
from collections import Counter
from collections.abc import Iterator

from busbw.doctor.facts.environment import Environment
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Absent, Machine
from busbw.doctor.parts.pci import DRIVER_GPUS

_DAEMON = ("var/run/slurmd.pid", "sys/fs/cgroup/system.slice/slurmd.service")
_STATES = ("DRAIN", "DOWN", "FAIL", "INVALID_REG", "NOT_RESPONDING")


def _node(machine: Machine) -> tuple[str, dict[str, str]]:
    """Returns the command that describes this node, and the fields State, Reason and Gres of its output."""
    is_in_job = "SLURM_JOB_ID" in machine.fact(Environment).variables
    if not is_in_job and not any(machine.has(path) for path in _DAEMON):
        raise NotApplicable("Slurm does not run here")
    name = machine.word("proc/sys/kernel/hostname").partition(".")[0]
    try:
        text = machine.output("scontrol", "show", "node", name)
    except Absent as error:
        raise NotApplicable("scontrol is not installed") from error
    return f"scontrol show node {name}", dict(re.findall(r"^\s*(State|Reason|Gres)=(.*)$", text, re.MULTILINE))


def _examine_state(machine: Machine) -> Iterator[Finding]:
    command, fields = _node(machine)
    states = fields["State"].split()[0].split("+")
    bad = [state for state in states if state.rstrip("*") in _STATES]
    if bad:
        yield Finding(
            severity="risk",
            problem=f"Slurm has this node in the state {'+'.join(states)}: {fields.get('Reason', 'no reason')}",
            evidence=(Evidence(source=command, value=f"State={'+'.join(states)}"),),
        )


def _examine_gpus(machine: Machine) -> Iterator[Finding]:
    command, fields = _node(machine)
    gres = fields.get("Gres", "")
    granted = sum(map(int, re.findall(r"(?:^|,)gpu:(?:[^,:(]+:)?(\d{1,9})", gres)))
    names = machine.names_or_none(DRIVER_GPUS)
    if not granted or not names or re.search(r"\d+g\.\d+gb", gres):
        raise NotApplicable("Slurm does not manage whole NVIDIA GPUs here")
    models = Counter(machine.text(f"{DRIVER_GPUS}/{name}/information").partition("\n")[0] for name in names)
    # A GPU for the display may be left out of Slurm's configuration.
    if granted not in (len(names), models.most_common(1)[0][1]):
        yield Finding(
            severity="risk",
            problem=f"Slurm may grant {granted} GPUs of this node, but the driver has {len(names)}",
            evidence=(
                Evidence(source=command, value=f"Gres={gres}"),
                Evidence(source=f"/{DRIVER_GPUS}", value=f"{len(names)} GPUs"),
            ),
        )


CHECKS = (
    Check(
        name="slurm-node-state",
        area="scheduler",
        reads="scontrol show node (State, Reason)",
        rule="Slurm's state of this node is not DRAIN, DOWN, FAIL, INVALID_REG or NOT_RESPONDING.",
        source="https://slurm.schedmd.com/scontrol.html",
        cost="Slurm starts no further jobs here; its reason often names a defect that another program found.",
        fix="correct the reason, then scontrol update NodeName=NODE State=RESUME",
        examine=_examine_state,
    ),
    Check(
        name="slurm-gres-count",
        area="scheduler",
        reads="scontrol show node (Gres), /proc/driver/nvidia/gpus",
        rule="Slurm's GRES of the node counts as many GPUs as the driver.",
        source="https://slurm.schedmd.com/gres.conf.html",
        cost="Jobs never get the GPUs that are left out; too many drain the node at its next registration.",
        fix="compare slurmd -C and slurmd -G with Gres= in slurm.conf and gres.conf, then scontrol reconfigure",
        examine=_examine_gpus,
    ),
)
