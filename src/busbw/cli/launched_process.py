"""Check for commands that start their ranks themselves: a launcher must not start several processes of them."""

from busbw import engine
from busbw.errors import UsageError

ONE_NODE_REMEDY = "start it once, on one node (srun -n 1)"
"""Next step for commands that use one machine."""


def refuse_launched_process(command: str, remedy: str) -> None:
    """Refuses to run as one of several processes, such as tasks of srun: each would measure and write on its own.

    Args:
        command: Name of the command, for the message: "run".
        remedy: Next step for the user.

    Raises:
        UsageError: A launcher started several processes.
    """
    rank, size, launcher = engine.world()
    if size > 1:
        raise UsageError(
            f"busbw {command} starts its ranks itself, but {launcher} started it as process {rank} of {size}",
            remedy=remedy,
        )
