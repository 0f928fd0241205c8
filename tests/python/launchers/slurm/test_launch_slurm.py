"""Plans of the Slurm launcher: equal to golden files, without the token, and with a working batch script."""

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm
from launch_jobs import JOB, TOKEN, expect_golden
from msgspec import structs
from polling import HANG_GUARD_S

from busbw.errors import UsageError
from busbw.launchers import slurm
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.machine_types.machine_type import SlurmOption, load
from busbw.launchers.slurm import SlurmPlan
from busbw.launchers.slurm.script import SlurmTarget, batch_script, job_options, merge_options, step_options

BATCH = SlurmTarget(folder=Path("/shared/ada/busbw-slurm/busbw-all-reduce-1a2b3c"))
CONTAINER = SlurmTarget(
    folder=BATCH.folder,
    gpus_per_node=8,
    container_image="/apps/busbw.sqsh",
    container_mounts="/fsx:/fsx,/tmp:/scratch",
)
P4DE = load("p4de.24xlarge")
ON_P4DE = replace(
    JOB,
    program="all_reduce_perf",
    processes_per_node=8,
    environment=tuple(P4DE.variables.items()),
    machine_type=P4DE,
)

RENDERED: dict[str, SlurmPlan] = {
    "batch.txt": slurm.render(JOB, BATCH),
    "batch_options.txt": slurm.render(
        replace(JOB, nodes=1, processes_per_node=1),
        replace(
            BATCH,
            folder=Path("/shared/ada's files/kept"),
            job_options=("--partition=gpu", "--time=1:00:00", '--comment=say "hello" \\ #1', "--nodes=3"),
            step_options=("--cpu-bind=cores", "--wait=5"),
            exclusive=False,
            mpi="pmix",
            steps=3,
        ),
    ),
    "container.txt": slurm.render(ON_P4DE, CONTAINER),
    "host_file.txt": slurm.render(JOB, replace(BATCH, hosts=(HostSlots("n3", 2), HostSlots("n1", 1)), port=23456)),
    "topology_order.txt": slurm.render(JOB, replace(BATCH, order=("n1", "n3", "n2", "n4"), port=23456)),
    "srun.txt": slurm.render(JOB, SlurmTarget(job_options=("--partition=gpu",), gpus_per_node=8)),
    "srun_step.txt": slurm.render(JOB, SlurmTarget(in_allocation=True, in_step=True)),
    "srun_host_file.txt": slurm.render(
        JOB,
        SlurmTarget(
            in_allocation=True, hosts=(HostSlots("n3", 2), HostSlots("n1", 2)), port=23456, scratch=Path("/tmp")
        ),
    ),
}


@pytest.mark.parametrize("name", RENDERED)
def test_the_plan_matches_the_golden_file(name: str) -> None:
    expect_golden(f"slurm/{name}", RENDERED[name].text())


@pytest.mark.parametrize("name", RENDERED)
def test_the_token_is_on_no_command_line_and_in_no_file(name: str) -> None:
    plan = RENDERED[name]
    assert TOKEN not in repr(plan)
    assert not any(TOKEN in file.text for file in plan.files)
    for command in plan.commands:
        assert TOKEN not in " ".join(command.words)
        # Without a batch job it is srun that hands it on; a batch job makes its own.
        assert (TOKEN in dict(command.environment).values()) == (plan.folder is None)


def test_a_batch_script_takes_secrets_from_the_environment(tmp_path: Path) -> None:
    job = replace(JOB, environment=(("HF_TOKEN", "hush"), ("NOTE", "plain")))
    plan = slurm.render(job, BATCH)
    (command,), (file,) = plan.commands, plan.files
    assert dict(command.environment) == {"HF_TOKEN": "hush"}
    assert "hush" not in file.text
    assert "export NOTE=plain" in file.text
    # srun is replaced by a program that prints what it would pass on.
    (tmp_path / "srun").write_text('#!/bin/sh\necho "$HF_TOKEN $NOTE"\n')
    (tmp_path / "srun").chmod(0o755)
    script = file.text.replace(str(BATCH.folder), str(tmp_path))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = ["bash", "-c", script]
    done = subprocess.run(run, env=environment | {"HF_TOKEN": "hush"}, timeout=HANG_GUARD_S, check=False)
    assert done.returncode == 0
    assert (tmp_path / "step-1.out").read_text() == "hush plain\n"
    refused = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    assert refused.returncode != 0
    assert "HF_TOKEN: export it before sbatch" in refused.stderr


def test_srun_passes_secrets_on_by_its_environment() -> None:
    (command,) = slurm.render(replace(JOB, environment=(("HF_TOKEN", "hush"),)), SlurmTarget()).commands
    assert dict(command.environment)["HF_TOKEN"] == "hush"
    assert "hush" not in " ".join(command.words)


def test_a_script_by_hand_makes_its_folder_itself() -> None:
    expect_golden("slurm/standalone.sbatch", batch_script(JOB, SlurmTarget(standalone=True, steps=2)).rstrip("\n"))


def test_each_option_once_with_its_last_value() -> None:
    assert merge_options(["--nodes=2", "--exclusive", "--nodes=3", "--mem=0"]) == (
        "--nodes=3",
        "--exclusive",
        "--mem=0",
    )


def test_user_options_override_the_machine_type() -> None:
    assert {"--exclusive", *(one.option for one in P4DE.slurm_job)} <= set(job_options(ON_P4DE, BATCH))
    assert "--ntasks-per-core=2" in job_options(ON_P4DE, replace(BATCH, job_options=("--ntasks-per-core=2",)))
    whole_nodes = SlurmOption(option="--exclusive", reason="no other jobs", source="https://example.com")
    on_whole_nodes = replace(ON_P4DE, machine_type=structs.replace(P4DE, slurm_job=[whole_nodes]))
    assert "--exclusive" not in job_options(on_whole_nodes, replace(BATCH, exclusive=False))
    assert "--exclusive=user" in job_options(ON_P4DE, replace(BATCH, job_options=("--exclusive=user",)))
    assert step_options(ON_P4DE, replace(BATCH, step_options=("--wait=7",))).count("--wait=7") == 1
    assert "--wait=30" not in step_options(ON_P4DE, replace(BATCH, step_options=("--wait=7",)))


def test_the_environment_is_exported_despite_site_settings() -> None:
    (command,) = slurm.render(JOB, BATCH).commands
    assert command.words[:3] == ("sbatch", "--parsable", "--export=ALL")
    (command,) = slurm.render(JOB, replace(BATCH, job_options=("--export=NONE",))).commands
    assert command.words[:3] == ("sbatch", "--parsable", "--export=NONE")
    (command,) = slurm.render(JOB, SlurmTarget(job_options=("--export=ALL,A=1",))).commands
    assert [word for word in command.words if word.startswith("--export")] == ["--export=ALL,A=1"]
    for where in (BATCH, SlurmTarget(), SlurmTarget(in_allocation=True)):
        assert step_options(JOB, where).count("--export=ALL") == 1
    assert "--export=ALL" not in step_options(JOB, replace(BATCH, step_options=("--export=ALL,A=1",)))


def test_our_options_override_defaults_of_sbatch() -> None:
    asked = replace(BATCH, job_options=("--partition=gpu", "--time=5"))
    plan = slurm.render(JOB, asked)
    words = plan.commands[0].words
    for option in (*job_options(JOB, asked), "--no-requeue", f"--output={BATCH.folder}/batch.log"):
        assert option in words
        assert f"#SBATCH {option}\n" in plan.files[0].text


def test_a_batch_job_gets_nothing_of_an_allocation_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSlurm(tmp_path)
    (tmp_path / "sbatch.says").write_text('env >"$FAKE/environment"\necho 12\n')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    dropped = ("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SLURM_NTASKS", "SBATCH_WAIT", "SBATCH_CLUSTERS", "SBATCH_REQUEUE")
    kept = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SBATCH_PARTITION", "NCCL_DEBUG")
    for name, value in dict.fromkeys((*dropped, *kept), "1").items() | {("FAKE", str(tmp_path))}:
        monkeypatch.setenv(name, value)
    plan = slurm.render(JOB, SlurmTarget(folder=tmp_path / "job"))
    assert slurm.start(plan) == "12"
    assert len(fake.asked("sbatch")) == 1
    names = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert names.isdisjoint(dropped)
    assert names >= set(kept)


def test_srun_gets_no_variable_that_changes_its_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("SLURM_LABELIO", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_CONF"):
        monkeypatch.setenv(name, "1")
    (tmp_path / "srun").write_text('#!/bin/sh\nenv | sed -n "s/^\\(SLURM_[^=]*\\)=.*/\\1/p"\n')
    (tmp_path / "srun").chmod(0o755)
    lines: list[bytes] = []
    callbacks = LaunchCallbacks(lines.append, lambda: None, on_error=lambda _line, _who: None)
    assert slurm.submit(slurm.render(JOB, SlurmTarget(in_allocation=True)), callbacks) == 0
    assert b"SLURM_CONF\n" in lines
    assert not {b"SLURM_LABELIO\n", b"SLURM_STDOUTMODE\n", b"SLURM_STDERRMODE\n"} & set(lines)


# ---- the script, run by a shell --------------------------------------------------------------------------------------

FAKE_SRUN = """#!/bin/bash
printf '%s\\n' "$@" >>"$TOLD/arguments"
printf '%s\\n' "token $BUSBW_TOKEN" "note $NOTE" "store ${BUSBW_RENDEZVOUS-none}" "file ${SLURM_HOSTFILE-none}" \\
  >>"$TOLD/variables"
echo "# table"
echo '{"kind":"row"}'
echo "said on stderr" >&2
read -r code <"$TOLD/codes"
sed -i 1d "$TOLD/codes"
exit "$code"
"""
FAKE_SCONTROL = """#!/bin/bash
[ "$*" = "show hostnames n[1-3,9]" ] || exit 1
printf '%s\\n' n1 n2 n3 n9
"""


def run_script(folder: Path, text: str, codes: str) -> "subprocess.CompletedProcess[str]":
    """The script as Slurm would run it, with a stand-in for srun that ends with one code after the other."""
    told = folder / "told"
    programs = folder / "bin"
    for job_manifests in (told, programs, folder / "job"):
        job_manifests.mkdir()
    for name, program in (("srun", FAKE_SRUN), ("scontrol", FAKE_SCONTROL)):
        (programs / name).write_text(program)
        (programs / name).chmod(0o755)
    (told / "codes").write_text(codes)
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "TOLD": str(told),
            "SLURM_JOB_ID": "12",
            "SLURM_JOB_NODELIST": "n[1-3,9]",
            "SLURM_SUBMIT_DIR": str(folder),
            "BUSBW_RENDEZVOUS": "tcp://elsewhere:1",
            "BUSBW_TOKEN": "an old one",
        },
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
    )


def variables(folder: Path, name: str) -> list[str]:
    lines = (folder / "told" / "variables").read_text().splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def test_the_script_runs_the_program_and_stores_its_output(tmp_path: Path) -> None:
    where = SlurmTarget(folder=tmp_path / "job")
    done = run_script(tmp_path, batch_script(JOB, where), "0\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    files = {path.name: path.read_text() for path in (tmp_path / "job").iterdir()}
    assert files == {"step-1.out": '# table\n{"kind":"row"}\n', "step-1.err": "said on stderr\n", "step-1.code": "0\n"}
    arguments = (tmp_path / "told" / "arguments").read_text().splitlines()
    assert arguments[-len(JOB.command) :] == list(JOB.command)
    assert variables(tmp_path, "note") == ["it's $HOME"]
    assert variables(tmp_path, "store") == ["none"]  # a folder of runs is no place to meet
    (token,) = variables(tmp_path, "token")
    assert len(token) == 64
    assert set(token) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("codes", "steps", "code"),
    [
        ("0\n0\n0\n", 3, 0),
        ("1\n0\n5\n", 3, 1),  # wrong data: the next step may be as good as ever
        ("0\n5\n0\n", 3, 5),
        ("0\n4\n0\n", 2, 4),  # a lost rank: the next step would lose it, too
        ("137\n0\n0\n", 1, 137),
    ],
)
def test_steps_continue_after_wrong_or_slow_data(tmp_path: Path, codes: str, steps: int, code: int) -> None:
    done = run_script(tmp_path, batch_script(JOB, SlurmTarget(folder=tmp_path / "job", steps=3)), codes)
    assert done.returncode == code
    assert len(list((tmp_path / "job").glob("step-*.code"))) == steps


def test_the_nodes_of_the_job_in_the_order_of_the_switches(tmp_path: Path) -> None:
    where = SlurmTarget(folder=tmp_path / "job", order=("n3", "n4", "n1", "n2"), port=23456)
    assert run_script(tmp_path, batch_script(JOB, where), "0\n").returncode == 0
    hosts = (tmp_path / "job" / "hosts").read_text().split()
    assert hosts == ["n3", "n3", "n1", "n1", "n2", "n2", "n9", "n9"]
    assert variables(tmp_path, "store") == ["tcp://n3:23456"]
    assert variables(tmp_path, "file") == [str(tmp_path / "job" / "hosts")]


def test_a_host_file_is_written_as_srun_reads_it(tmp_path: Path) -> None:
    where = SlurmTarget(folder=tmp_path / "job", hosts=(HostSlots("n3", 2), HostSlots("n1", 1)), port=23456)
    assert run_script(tmp_path, batch_script(JOB, where), "0\n").returncode == 0
    assert (tmp_path / "job" / "hosts").read_text().split() == ["n3", "n3", "n1"]


def test_a_manual_script_shows_the_table_and_can_be_attached(tmp_path: Path) -> None:
    done = run_script(tmp_path, batch_script(JOB, SlurmTarget(standalone=True)), "5\n")
    assert (done.returncode, done.stdout, done.stderr) == (5, "# table\n", "said on stderr\n")
    found = slurm.load_submitted(tmp_path / "busbw-12")
    assert (found.job, found.steps, found.collective) == ("12", 1, "all_reduce")


@pytest.mark.parametrize("where", [replace(BATCH, steps=1), SlurmTarget()], ids=["batch", "srun"])
@pytest.mark.parametrize(("rank", "stdout", "stderr"), [("0", "heard\n", ""), ("1", "", "heard\n")])
def test_only_process_0_may_write_where_records_go(
    tmp_path: Path, where: SlurmTarget, rank: str, stdout: str, stderr: str
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho heard\n")
    program.chmod(0o755)
    plan = slurm.render(replace(JOB, program=str(program)), where)
    line = plan.files[0].text if plan.files else plan.commands[0].text().replace("\\\n", "")
    words = next(shlex.split(each) for each in line.splitlines() if "  srun " in each)
    shell = words[words.index("sh") :]
    shell = shell[: shell.index("-") + 1]
    done = subprocess.run(
        shell, env={**os.environ, "SLURM_PROCID": rank}, capture_output=True, text=True, timeout=HANG_GUARD_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, stdout, stderr)


# ---- the folder of a job ---------------------------------------------------------------------------------------------


NONSENSE = (
    "",
    "{",
    "[]",
    '{"job": "12; rm", "steps": 1, "collective": "all_reduce"}',
    '{"job": 12, "steps": 1, "collective": "all_reduce"}',
    '{"job": "12", "steps": 0, "collective": "all_reduce"}',
    '{"job": "12", "steps": 1, "collective": "../x"}',
    '{"job": "12", "steps": 1}',
)


@pytest.mark.parametrize("text", NONSENSE)
def test_a_folder_with_an_invalid_job_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / slurm.JOB_FILE).write_text(text)
    with pytest.raises(UsageError, match="is not the folder of a Slurm job"):
        slurm.load_submitted(tmp_path)


def test_only_the_jobs_own_folder_is_removed(tmp_path: Path) -> None:
    one, other = (tmp_path / slurm.PARENT_FOLDER / name for name in ("one", "other"))
    for folder in (one, other):
        folder.mkdir(parents=True)
        (folder / "step-1.out").write_text("x")
    slurm.remove_folder(one)
    assert [path.name for path in (tmp_path / slurm.PARENT_FOLDER).iterdir()] == ["other"]
    slurm.remove_folder(other)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ("--exclude=n2",)),
        (("--time=5", "--nodelist=n[1-3]"), ("--time=5", "--nodelist=n1,n3", "--exclude=n2")),
        (("--exclude=n[4-5]", "--time=5"), ("--time=5", "--exclude=n2,n[4-5]")),
    ],
)
@pytest.mark.parametrize("in_allocation", [False, True])
def test_a_target_without_nodes(options: tuple[str, ...], expected: tuple[str, ...], in_allocation: bool) -> None:
    hosts = (HostSlots("n1", 2), HostSlots("n2", 2))
    target = SlurmTarget(in_allocation=in_allocation, hosts=hosts, job_options=options, step_options=options)
    rest = target.without_nodes(["n2"])
    assert (rest.step_options if in_allocation else rest.job_options) == expected
    assert (rest.job_options if in_allocation else rest.step_options) == options
    assert rest.hosts == hosts[:1]
