"""Records of the whole run that follow its rows: warnings, and the end with its reason."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

COMPLETE_END_REASONS = ("completed", "wrong data", "slower than demanded")
"""Values of `EndRecord.reason` of runs that have all their rows."""


class WarningRecord(Struct, tag_field="kind", tag="warning", kw_only=True, frozen=True):
    """A warning about the run, with a remedy."""

    message: Annotated[str, Meta(description="The sentence.")]


class MemoryRecord(Struct, kw_only=True, frozen=True):
    """Memory use of one rank's device (-M). Other programs change it meanwhile, so figures can be negative."""

    rank: Annotated[int, Meta(description="Rank in the whole job.")]
    context_bytes: Annotated[int | None, Meta(description="Memory for CUDA's context; null if unknown.")]
    library_bytes: Annotated[int | None, Meta(description="Memory for joining the communicator; null if unknown.")]
    buffer_bytes: Annotated[int | None, Meta(description="Memory for buffers and registration; null if unknown.")]
    collective_bytes: Annotated[
        int | None, Meta(description="Memory taken after the buffers and registration; null if unknown.")
    ]


class EndRecord(Struct, tag_field="kind", tag="end", kw_only=True, frozen=True):
    """The last line: the end of the run. It is missing if the run was killed."""

    reason: Annotated[str, Meta(description="'completed', 'interrupted', 'wrong data', 'rank lost or timed out', ...")]
    exit_code: Annotated[int, Meta(description="The program's exit code.")]
    message: Annotated[str | None, Meta(description="Error message on stderr; null without an error.")]
    details: Annotated[list[str], Meta(description="States that ranks and NCCL reported when the job stalled.")] = (
        msgspec.field(default_factory=list)
    )
    rows: Annotated[int, Meta(description="Finished rows of the table.", ge=0)]
    out_of_bounds: Annotated[int, Meta(description="(rank, placement, row) triples with wrong data.", ge=0)]
    average_busbw_gbps: Annotated[float | None, Meta(description="The footer's average; null without a row.")]
    demanded_busbw_gbps: Annotated[float | None, Meta(description="NCCL_TESTS_MIN_BW; null if not set.")]
    end_time: Annotated[str, Meta(description="ISO 8601 with zone.")]
    memory: Annotated[list[MemoryRecord] | None, Meta(description="Memory use of all ranks; null without -M.")] = None
