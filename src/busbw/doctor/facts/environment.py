"""Environment variables of the process that concern communication."""

import os
import re

from busbw.doctor.model.machine import Fact
from busbw.secret_variables import may_be_secret

_CONCERNS_COMMUNICATION = re.compile(
    r"(?:NCCL|RCCL|OFI_NCCL|FI|UCX|CUDA|NVIDIA|TORCH_NCCL|TORCH_DISTRIBUTED|OMPI_MCA|OMPI_COMM_WORLD|RDMAV|MLX5|IBV|SLURM|SRUN|PMI|"
    r"PMIX|KUBERNETES|OMP|GOMP|HSA|HIP|ROCR|BUSBW|ENROOT|MELLANOX|SHARP|HCOLL)_|(?:LD_LIBRARY_PATH|LD_PRELOAD)$"
)


class Environment(Fact, kw_only=True, frozen=True):
    """Variables that concern communication, except those that may be secret."""

    variables: dict[str, str]


def read_environment() -> Environment:
    """Returns the variables of this process."""
    return Environment(
        variables={
            name: value.encode(errors="surrogateescape").decode(errors="replace")
            for name, value in sorted(os.environ.items())
            if _CONCERNS_COMMUNICATION.match(name) and not may_be_secret(name, value)
        }
    )
