"""The engine as the measuring program of a search on this machine."""

from busbw import engine
from busbw.cli.launched_process import refuse_launched_process
from busbw.errors import BusbwError


def flows_command(backend: str | None, ranks: int | None) -> list[str]:
    """Returns the words that start the engine with one rank per GPU of this machine.

    Args:
        backend: Backend of the user. None: the GPUs.
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
