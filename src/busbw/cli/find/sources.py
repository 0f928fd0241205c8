"""Source of the flows of a search: a simulation, the job of this process, another program, or the engine."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from busbw import engine
from busbw.cli.find.find_options import FindOptions
from busbw.cli.find.measuring_program import MeasuringProgram
from busbw.cli.find.program_pipes import ProgramPipes, StartedProgram
from busbw.cli.launched_process import refuse_launched_process
from busbw.cli.options.command_words import split_command
from busbw.errors import BusbwError
from busbw.find.measurer import Measurer
from busbw.simulator.fabric import DEFAULT_NODES_PER_GROUP, Fabric, parse_shape
from busbw.simulator.faults import parse_fault
from busbw.simulator.measurer import SimulatedMeasurer
from busbw.simulator.simulation import Noise, Simulation


def open_measurer(options: FindOptions, check_interrupt: Callable[[], None]) -> AbstractContextManager[Measurer]:
    """Returns the measurer of the cluster that the options name. The end of the context ends the measurer.

    Raises:
        UsageError: An option is invalid.
        BusbwError: A program cannot be started, or describes no usable cluster.
    """
    if options.shape is not None:
        return nullcontext(_simulated_measurer(options, options.shape))
    if options.descriptors is not None:
        # This process reads answers from the first descriptor, and writes requests to the second.
        answers, requests = map(int, options.descriptors.split(","))
        # No limit for an answer: the job has its own limits, also for its start.
        return MeasuringProgram(ProgramPipes(requests, answers), math.inf, check_interrupt)
    words: Sequence[str]
    if options.program is not None:
        words = split_command("--measure-with", options.program)
    else:
        words = _flows_command(options.backend, options.ranks)
    return MeasuringProgram(StartedProgram(words), options.answer_timeout_s, check_interrupt)


def _simulated_measurer(options: FindOptions, shape: str) -> Measurer:
    nodes, gpus = parse_shape(shape)
    fabric = Fabric(
        nodes=nodes,
        gpus=gpus,
        layout=options.layout or "rail",
        nodes_per_group=options.nodes_per_leaf or DEFAULT_NODES_PER_GROUP,
        oversubscription=options.oversubscription or 1.0,
    )
    faults = [parse_fault(text, fabric) for text in options.fault_texts]
    return SimulatedMeasurer(Simulation(fabric, faults, Noise(), options.seed))


def _flows_command(backend: str | None, ranks: int | None) -> list[str]:
    """Returns the words that start the engine on this machine.

    Args:
        backend: Backend that the user chose. None: the engine chooses the GPUs.
        ranks: Number of ranks. None: the engine's default.

    Raises:
        BusbwError: There is no GPU, or no engine.
        UsageError: A launcher started this process as one of several.
    """
    refuse_launched_process("find", "use busbw find LAUNCHER, such as busbw find slurm -N 2")
    if backend is None and not engine.gpu_count():
        raise BusbwError(
            "this machine has no GPU that the engine can use",
            remedy="try --simulate 16x8 or --backend host, or search in a job: busbw find slurm -N 16",
        )
    rank_count = ranks or engine.default_ranks()
    return [str(engine.program(engine.ENGINE)), engine.FLOWS, "--backend", backend or "auto", "-t", str(rank_count)]
