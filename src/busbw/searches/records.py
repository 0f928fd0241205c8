"""Types of the record of a search (`busbw find`), one JSON object per line: `search`, one `round` each, `search_end`.

They belong to the same contract as the records of runs (records/) and have the same schema version.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.records import stream_lines

LoadName = Literal["inside", "both", "one_way", "sparse", "light", "cross", "one_to_all", "all_to_one"]


class SearchRecord(Struct, tag_field="kind", tag="search", kw_only=True, frozen=True):
    """The first line of a search: the facts that are known before the first round."""

    schema_version: Annotated[str, Meta(description="Version of this schema, major.minor.", pattern=r"^\d+\.\d+$")]
    busbw_version: Annotated[str, Meta(description="Version of busbw.")]
    args: Annotated[list[str], Meta(description="The command line, program name first.")]
    start_time: Annotated[str, Meta(description="ISO 8601 with zone.")]
    seed: Annotated[int, Meta(description="Seed of the rounds.")]
    simulated: Annotated[bool, Meta(description="True if the cluster is simulated.")]
    nodes: Annotated[
        list[dict[str, Any]], Meta(description="The nodes, as a measuring program describes them (`nodes`).")
    ]


class RoundRecord(Struct, tag_field="kind", tag="round", kw_only=True, frozen=True):
    """One round of flows that start together. The arrays have one entry per flow."""

    load: Annotated[LoadName, Meta(description="Concurrent traffic of the round.")]
    size_bytes: Annotated[int, Meta(description="Bytes of each flow.", ge=1)]
    sources: Annotated[list[int], Meta(description="GPU that sends, numbered from 0 over all nodes in their order.")]
    targets: Annotated[list[int], Meta(description="GPU that receives.")]
    times_us: Annotated[
        list[list[float]],
        Meta(description="Time of each iteration at the receiver, to the nanosecond. Empty if the flow failed."),
    ]
    errors: Annotated[dict[int, str], Meta(description="Reason of each failed flow, by its position in the arrays.")]
    took_s: Annotated[float | None, Meta(description="Duration of the round with connections; null if unknown.")]


class SearchEndRecord(Struct, tag_field="kind", tag="search_end", kw_only=True, frozen=True):
    """The last line of a search. It is missing if the search was killed."""

    exit_code: Annotated[int, Meta(description="Exit code of the command.")]
    message: Annotated[str | None, Meta(description="Error that ended the search early; null without an error.")]
    answer: Annotated[str, Meta(description="The findings, one sentence each.")]
    result: Annotated[dict[str, Any], Meta(description="The object that `busbw find --json` prints.")]
    end_time: Annotated[str, Meta(description="ISO 8601 with zone.")]


SearchLine = SearchRecord | RoundRecord | SearchEndRecord
"""One line of the record of a search; its `kind` selects the type."""

_decoder: msgspec.json.Decoder[SearchLine] = msgspec.json.Decoder(SearchLine)


def stream_search(path: Path | str) -> Iterator[SearchLine | None]:
    """Yields the lines of a search, and None for a last line that was cut off.

    Raises:
        RecordsError: As `records.stream`.
    """
    return stream_lines(path, _decoder, SearchRecord)
