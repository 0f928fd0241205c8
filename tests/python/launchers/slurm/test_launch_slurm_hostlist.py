"""Host lists of Slurm."""

import random
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.launchers.slurm.hostlist import expand_hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3,07,10-11]", ["n1", "n2", "n3", "n07", "n10", "n11"]),
        ("gpu-a[01-02]-x,login", ["gpu-a01-x", "gpu-a02-x", "login"]),
        ("r[1-2]n[08-10]", ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert list(expand_hostlist(text)) == names


def compressed(numbers: set[int], width: int) -> str:
    """The inverse: numbers as Slurm would write them."""
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), None]:
        if run and number is not None and number == run[-1] + 1:
            run.append(number)
            continue
        if run:
            ends = [str(end).zfill(width) for end in (run[0], run[-1])]
            parts.append(ends[0] if len(run) == 1 else "-".join(ends))
        run = [] if number is None else [number]
    return f"n[{','.join(parts)}]"


@given(st.sets(st.integers(0, 500), min_size=1), st.integers(1, 5))
def test_lists_are_expanded_to_what_was_compressed(numbers: set[int], width: int) -> None:
    assert list(expand_hostlist(compressed(numbers, width))) == [
        f"n{str(number).zfill(width)}" for number in sorted(numbers)
    ]


@pytest.mark.skipif(not shutil.which("scontrol"), reason="no scontrol here to compare with (Debian: slurm-client)")
def test_lists_are_expanded_as_slurm_does_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    configuration = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    configuration.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    chance = random.Random(1)
    for _ in range(10):
        numbers = {chance.randrange(300) for _ in range(chance.randrange(1, 20))}
        text = f"{compressed(numbers, chance.randrange(1, 4))},x[1-2]y[3-4]"
        said = subprocess.run(
            ["scontrol", "show", "hostnames", text],
            env={"SLURM_CONF": str(configuration), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert list(expand_hostlist(text)) == said.stdout.split()
