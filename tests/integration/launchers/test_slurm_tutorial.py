"""docs/tutorials/slurm.md step by step on a real Slurm. Its nodes have no GPUs, so the host backend replaces them."""

from pathlib import Path

from doc_commands import (
    ROOT,
    DocCommand,
    Shell,
    difference,
    fence_commands,
    make_page_folder,
    read_fences,
    shell_environment,
)

from .slurm import GPUS, OUTER, Slurm

PAGE = ROOT / "docs" / "tutorials" / "slurm.md"
ON_THE_TEST_CLUSTER = {"-p gpu": "-p main", "--gpus-per-node 8": f"--gpus-per-node {len(GPUS)}", "-e 8G": "-e 64K"}
"""Values of the page that a reader replaces by those of the cluster."""


def steps() -> list[tuple[bool, DocCommand]]:
    """All commands of the page in order, each with whether it needs GPUs."""
    return [
        ("needs-gpu" in fence.marks, command)
        for fence in read_fences(PAGE)
        if fence.language == "console"
        for command in fence_commands(fence)
    ]


def on_the_test_cluster(command: str, needs_gpu: bool) -> str:
    for typed, replaced in ON_THE_TEST_CLUSTER.items():
        command = command.replace(typed, replaced)
    return f"{command} --backend host" if needs_gpu and "launch" in command else command


def test_the_tutorial(slurm: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    make_page_folder(folder)
    environment = {name: value for name, value in shell_environment().items() if not name.startswith(OUTER)}
    environment |= {**slurm.environment, "PATH": f"{environment['PATH']}:{slurm.environment['PATH']}"}
    measured = 0
    with Shell(folder, environment) as shell:
        for needs_gpu, command in steps():
            if "--dry-run" in command.command:
                continue  # test_doc_commands.py runs it as it is written
            output = shell.run(on_the_test_cluster(command.command, needs_gpu))
            if command.command.startswith("busbw check last"):
                assert output.code == 3, output  # without GPUs there is no expectation
                continue
            assert output.code == 0, output
            if needs_gpu:
                assert f"# Launched by slurm: {2 * len(GPUS)} processes on 2 hosts" in output.lines
                assert any(line.startswith("Data: correct: all 14 rows right") for line in output.lines), output
                measured += 1
            else:
                assert difference(command.expected, output, exact=False) == ""
    assert measured == 1
    assert slurm.jobs() == []
