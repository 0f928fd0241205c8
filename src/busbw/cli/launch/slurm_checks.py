"""Refuses options of `busbw launch slurm` that conflict with each other, the allocation or the engine."""

import os
from collections.abc import Sequence

from busbw import engine
from busbw.cli.launch.options import LaunchOptions
from busbw.cli.options.engine_flags import used_flags
from busbw.errors import BusbwError, UsageError
from busbw.launchers.job.job import Job
from busbw.launchers.slurm.allocation import Allocation
from busbw.launchers.slurm.reserved_options import RESERVED_BY_SBATCH, RESERVED_BY_SRUN, reject_reserved


def check_output_options(options: LaunchOptions, *, is_batch: bool, has_folder: bool, detach: bool, steps: int) -> None:
    """Refuses options for output and records that do not suit this kind of job."""
    if not is_batch and (has_folder or detach):
        raise UsageError(
            "--output-folder and --detach are for batch jobs", remedy="remove them, or set --submit-with sbatch"
        )
    if options.records_path is not None and (steps > 1 or detach):
        raise UsageError("--records takes one run, without --repeat and --detach", remedy="use --store")


def require_gpu_support(gpus_per_node: int, options: LaunchOptions) -> None:
    """Refuses GPUs for an engine that cannot use them, before the job waits for GPUs. The engine checks again later.

    Raises:
        BusbwError: The job requests GPUs, but the engine has no GPU support.
    """
    if gpus_per_node == 0 or "--backend" in used_flags(options.flags):
        return
    if reason := engine.missing_gpu_support():
        raise BusbwError(f"GPUs are requested ({gpus_per_node} per node), but {reason}")


def check_job_options(allocation: Allocation, options: tuple[str, ...], *, is_batch: bool) -> None:
    """Refuses several clusters, and job options that are reserved, malformed, or without effect in an allocation."""
    if allocation.job and options:
        raise UsageError(
            f"{options[0]} conflicts with the allocation {allocation.job} of this shell",
            remedy="remove it, or set --submit-with sbatch for a separate job",
        )
    for option in options:
        if not option.startswith("-") or "\n" in option:
            raise UsageError(f'--slurm-arg "{option}" is not an option', remedy="write it as --slurm-arg=--name=value")
    reject_reserved("--slurm-arg", options, RESERVED_BY_SBATCH if is_batch else RESERVED_BY_SRUN)
    clusters = os.environ.get("SLURM_CLUSTERS", "")
    if "," in clusters or clusters == "all":
        raise UsageError(
            f"SLURM_CLUSTERS={clusters} names several clusters, so job numbers are ambiguous",
            remedy="set it to one cluster",
        )


def require_export(job: Job, options: Sequence[str]) -> None:
    """Refuses --export options that keep secrets from the batch job. It gets them from the environment of sbatch."""
    for option in options:
        is_export = option.startswith("--export=")
        exports_all = option.removeprefix("--export=").split(",")[0] == "ALL"
        if job.secrets and is_export and not exports_all:
            raise UsageError(
                f"{option} would not pass on --env {next(iter(job.secrets))}, which may be secret",
                remedy="use --slurm-arg=--export=ALL",
            )
