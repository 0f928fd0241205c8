"""A simulated cluster as a measuring program: `busbw find --measure-with 'python find_simulator.py 16x8'`."""

import math
import sys

import click
import msgspec
import numpy as np

from busbw.find.protocol import PROTOCOL, ClusterAnswer, FlowAnswer, MeasureAnswer, Request
from busbw.simulator.fabric import Fabric, parse_shape
from busbw.simulator.faults import parse_fault
from busbw.simulator.simulation import Noise, Simulation


@click.command()
@click.argument("shape", metavar="NODESxGPUS")
@click.option("--fault", "fault_texts", multiple=True, metavar="KIND:WHERE:SLOWDOWN", help="Fault; repeatable.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of noise and hashing.")
def main(shape: str, fault_texts: tuple[str, ...], seed: int) -> None:
    """Answers the requests of a search on standard input with the times of a simulated cluster."""
    nodes, gpus = parse_shape(shape)
    fabric = Fabric(nodes=nodes, gpus=gpus)
    faults = [parse_fault(text, fabric) for text in fault_texts]
    simulation = Simulation(fabric, faults, Noise(), seed)
    description = tuple(fabric.describe())
    first_gpu = {node.name: number * fabric.gpus for number, node in enumerate(description)}
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        if request.ask == "end":
            break
        answer: ClusterAnswer | MeasureAnswer
        if request.ask == "cluster":
            answer = ClusterAnswer(description, protocol=PROTOCOL)
        else:
            answer = _measure(simulation, request, first_gpu)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _measure(simulation: Simulation, request: Request, first_gpu: dict[str, int]) -> MeasureAnswer:
    """Measures the flows of a request. `first_gpu`: number of the first GPU of each node, by the name of the node."""
    source = np.array([first_gpu[flow.source.node] + flow.source.gpu for flow in request.flows])
    target = np.array([first_gpu[flow.target.node] + flow.target.gpu for flow in request.flows])
    times_us, took_s = simulation.measure(source, target, request.size_bytes or 0, request.iterations or 0)
    flows = tuple(
        FlowAnswer(error="timed out after 30 s") if math.inf in row else FlowAnswer(times_us=tuple(row))
        for row in times_us.tolist()
    )
    return MeasureAnswer(id=request.id, flows=flows, took_s=took_s)


if __name__ == "__main__":
    main()
