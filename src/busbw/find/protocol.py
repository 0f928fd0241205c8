"""Messages of protocol 1 between a search and a measuring program: one JSON object per line.

Unknown fields are ignored. The value of a missing field is unknown.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from busbw.errors import BusbwError
from busbw.find.cluster import Cluster, NodeDescription
from busbw.find.observations import RoundResult
from busbw.find.rounds import Round
from busbw.units import shorten

PROTOCOL = 1
_MIN_TIME_US, _MAX_TIME_US = 1e-6, 1e15
"""Bounds of a plausible time. Beyond them, the arithmetic of a search is not exact."""
_MAX_QUOTE_LENGTH = 60
"""Characters of an invalid answer that an error quotes."""


class FlowEnd(Struct, frozen=True):
    """GPU at one end of a flow."""

    node: str
    gpu: int


class FlowRequest(Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """A flow to measure."""

    source: FlowEnd
    target: FlowEnd


class Request(Struct, frozen=True, omit_defaults=True):
    """A request to a measuring program: `cluster`, `measure` or `end`."""

    ask: str
    protocol: int | None = None
    id: int | None = None
    size_bytes: int | None = None
    iterations: int | None = None
    flows: tuple[FlowRequest, ...] = ()

    @property
    def line(self) -> bytes:
        """The request as a line of JSON."""
        return msgspec.json.encode(self) + b"\n"


class FlowAnswer(Struct, frozen=True, omit_defaults=True):
    """Times of one flow, or the reason why it has none."""

    times_us: tuple[float, ...] = ()
    error: str | None = None


class LostGpu(FlowEnd, frozen=True):
    """A GPU that no longer answers."""

    error: str = "no reason is known"


class ClusterAnswer(Struct, frozen=True, omit_defaults=True):
    """Answer to `cluster`."""

    nodes: tuple[NodeDescription, ...] = ()
    protocol: int | None = None
    lost: tuple[LostGpu, ...] = ()
    error: str | None = None


class MeasureAnswer(Struct, frozen=True, omit_defaults=True):
    """Answer to `measure`."""

    id: int | None = None
    flows: tuple[FlowAnswer, ...] = ()
    took_s: float | None = None
    lost: tuple[LostGpu, ...] = ()
    error: str | None = None


_Answer = TypeVar("_Answer", ClusterAnswer, MeasureAnswer)


CLUSTER_REQUEST = Request("cluster", protocol=PROTOCOL).line
"""Line that asks for the description of the cluster."""
END_REQUEST = Request("end").line
"""Line that ends the program."""


def measure_request(number: int, one_round: Round, iterations: int, cluster: Cluster) -> bytes:
    """Returns the line that asks for the measurement of a round."""
    ends = [FlowEnd(*cluster.gpu_name(gpu)) for gpu in range(len(cluster.gpu_node))]
    flows = tuple(
        FlowRequest(ends[source], ends[target])
        for source, target in zip(one_round.source, one_round.target, strict=True)
    )
    return Request("measure", id=number, size_bytes=one_round.size_bytes, iterations=iterations, flows=flows).line


def parse_cluster(line: bytes) -> tuple[Cluster, dict[int, str]]:
    """Returns the cluster of an answer, and the GPUs that could not start, with the reason of each.

    Raises:
        BusbwError: The answer is invalid, reports an error or describes no usable cluster.
    """
    answer = _decode(line, ClusterAnswer, "the question for the cluster")
    _reject_error(answer.error)
    if answer.protocol not in (None, PROTOCOL):
        raise BusbwError(
            f"the measuring program speaks protocol {answer.protocol}",
            remedy=f"use one that speaks protocol {PROTOCOL}",
        )
    cluster = Cluster(answer.nodes)
    return cluster, _lost_gpus(answer.lost, cluster)


def parse_result(line: bytes, number: int, flow_count: int, cluster: Cluster) -> RoundResult:
    """Returns the result of an answer to measurement `number`.

    An answer with an error and lost GPUs is a result without times, the last one of a search (`RoundResult.failure`).

    Raises:
        BusbwError: The answer is invalid, is of another measurement, is incomplete, or reports an error without lost
            GPUs.
    """
    name = f"measurement {number}"
    answer = _decode(line, MeasureAnswer, name)
    lost = _lost_gpus(answer.lost, cluster)
    if answer.error is not None and lost:
        return RoundResult(times_us=np.full((flow_count, 1), np.nan), errors={}, lost=lost, failure=answer.error)
    _reject_error(answer.error)
    if answer.id != number:
        other = "a measurement without an id" if answer.id is None else f"measurement {answer.id}"
        raise BusbwError(f"the measuring program answered {other} instead of {name}", remedy="answer in order")
    if len(answer.flows) != flow_count:
        raise BusbwError(
            f"the measuring program answered {name} with {len(answer.flows)} of {flow_count} flows",
            remedy="answer with one entry per flow",
        )
    if answer.took_s is not None and answer.took_s < 0:
        raise BusbwError(
            f"{name} took {answer.took_s:g} s", remedy="answer with a duration of 0 or more seconds, or without one"
        )
    iterations = max((len(flow.times_us) for flow in answer.flows), default=0)
    times = np.full((flow_count, max(iterations, 1)), np.nan)
    errors: dict[int, str] = {}
    for row, flow in enumerate(answer.flows):
        if flow.error is not None or not flow.times_us:
            errors[row] = flow.error or "no times"
            continue
        _reject_times(flow.times_us, row, name)
        times[row, : len(flow.times_us)] = flow.times_us
    return RoundResult(times_us=times, errors=errors, took_s=answer.took_s, lost=lost)


def _lost_gpus(gpus: Sequence[LostGpu], cluster: Cluster) -> dict[int, str]:
    """Returns the reason of each lost GPU, by its number in the cluster."""
    return {_gpu_number(gpu, cluster): gpu.error for gpu in gpus}


def _gpu_number(end: FlowEnd, cluster: Cluster) -> int:
    node = next((number for number, node in enumerate(cluster.nodes) if node.name == end.node), None)
    if node is None or not 0 <= end.gpu < cluster.node_gpus[node]:
        raise BusbwError(
            f"the measuring program lost GPU {end.gpu} of {end.node}, which the cluster does not have",
            remedy="name GPUs of the cluster",
        )
    return int(cluster.first_gpu[node]) + end.gpu


def _decode(line: bytes, kind: type[_Answer], question: str) -> _Answer:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        quote = shorten(line.decode(errors="replace").strip(), _MAX_QUOTE_LENGTH)
        raise BusbwError(
            f'the measuring program answered {question} with "{quote}", which is no valid answer ({error})',
            remedy="print only answers on its standard output",
        ) from error


def _reject_error(error: str | None) -> None:
    if error is not None:
        raise BusbwError(
            f"the measuring program reports: {error or 'an error without a message'}",
            remedy="correct this and search again",
        )


def _reject_times(times_us: Sequence[float], row: int, name: str) -> None:
    invalid = [time for time in times_us if not _MIN_TIME_US <= time <= _MAX_TIME_US]
    if invalid:
        raise BusbwError(
            f"{name}: flow {row} has a time of {invalid[0]:g} us", remedy="answer with positive times in microseconds"
        )
