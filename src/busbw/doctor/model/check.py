"""A check and its findings."""

from collections.abc import Callable, Iterable
from typing import Generic, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct, field

Subject = TypeVar("Subject")
"""Object that a check examines: a machine, a log, or the values of all nodes."""

Area = Literal["gpu", "nic", "host", "libraries", "scheduler", "log", "nodes"]

Severity = Literal["broken", "slow", "risk"]
"""broken: jobs fail or lose data. slow: jobs lose speed. risk: a job may fail or slow down later or at scale."""

SEVERITIES: tuple[Severity, ...] = ("broken", "slow", "risk")
"""The severities, worst first."""


class Evidence(Struct, frozen=True):
    """A value that supports a finding, and where it was read."""

    source: str = field(name="from")
    """File, command, variable or line of a log."""
    value: str


class Damage(Struct, kw_only=True, frozen=True):
    """Effect of a finding on collectives, in the terms of the expectation's model (`busbw.expect`).

    The slowest rank determines the rate of a ring, so one bad part determines the rate of a job.
    """

    nic_share: float = 1.0
    """Remaining share of the bandwidth between nodes."""
    fabric_share: float = 1.0
    """Remaining share of the bandwidth between the GPUs of a node."""
    nvls: bool = True
    """False if the NVLink switch no longer reduces."""
    fabric_cap_gbps: float | None = None
    """Maximum busbw within a node in GB/s. None if the finding limits only the shares above."""


class Finding(Struct, frozen=True):
    """One problem of one part. A check yields one finding for each part with the problem."""

    severity: Severity
    problem: str
    """Clause with the part, its present value and its right value: "mlx5_3 runs at x8 instead of x16"."""
    evidence: tuple[Evidence, ...]
    subject: str | None = None
    """The part: mlx5_3, GPU2, NCCL_P2P_DISABLE. None for the whole machine."""
    damage: Damage | None = None
    """Effect on collectives, from which the cost in bandwidth is computed. None if this effect cannot be estimated."""
    cost: str | None = None
    """Sentence with the effect of this finding. None if the sentence of the check states the effect."""
    fix: str | None = None
    """Commands that correct this finding. None if the commands of the check correct this finding."""


Examination: TypeAlias = Callable[[Subject], Iterable[Finding]]
"""Yields the findings. Raises NotApplicable or Unreadable; findings before an Unreadable remain valid."""


class NotApplicable(Exception):  # noqa: N818 (not an error)
    """The machine lacks what the check is about, such as a GPU. The argument is the reason."""


class Unreadable(Exception):  # noqa: N818 (not an error)
    """A value cannot be read, so the check cannot decide. The argument is the value, or a clause with the reason."""


def require(condition: object, reason: str) -> None:
    """Raises NotApplicable with this reason if the condition of a check is not met."""
    if not condition:
        raise NotApplicable(reason)


class CheckTexts(Struct, kw_only=True, frozen=True):
    """Texts of a check for `busbw doctor --list`. Subclasses add the fields of a check in a TOML file."""

    rule: str
    """Sentence with the condition that a healthy machine meets."""
    source: str
    """Public address of the rule's origin, as URL or owner/repository#number."""
    cost: str
    """Sentence with the effect on collectives if the rule is broken."""
    fix: str
    """Commands or steps that correct the problem."""


class Check(CheckTexts, Generic[Subject], kw_only=True, frozen=True):
    """A rule about one property."""

    name: str
    """Lower-case words with dashes: nic-width. A part of the interface; do not rename."""
    area: Area
    reads: str
    """Files, commands and variables that the check reads."""
    examine: Examination[Subject]
    needs_root: bool = False
    """True if other users cannot read the values on a usual system."""


def make_check(texts: CheckTexts, name: str, area: Area, reads: str, examine: Examination[Subject]) -> Check[Subject]:
    """Returns the check with these texts. Fields that a subclass of CheckTexts adds are left out."""
    text_fields = {field_name: getattr(texts, field_name) for field_name in CheckTexts.__struct_fields__}
    return Check(name=name, area=area, reads=reads, examine=examine, **text_fields)


def check(
    *, reads: str, rule: str, source: str, cost: str, fix: str, needs_root: bool = False
) -> Callable[[Examination[Subject]], Check[Subject]]:
    """Returns a decorator that turns a function into a check.

    The function `gpu_xid` in the folder `gpu` becomes the check gpu-xid of the area gpu.
    """

    def decorate(examine: Examination[Subject]) -> Check[Subject]:
        return Check(
            name=examine.__name__.replace("_", "-"),
            area=cast(Area, examine.__module__.split(".")[-2]),
            reads=reads,
            rule=rule,
            source=source,
            cost=cost,
            fix=fix,
            needs_root=needs_root,
            examine=examine,
        )

    return decorate
