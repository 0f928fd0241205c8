"""`busbw launch slurm`: its options, and its messages without Slurm."""

import os
import re
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm

from busbw.cli.launch import slurm_steps
from busbw.cli.main import main

ALL_REDUCE = ["--", "all_reduce", "-b", "8", "-e", "8"]


@pytest.fixture(autouse=True)
def _no_slurm_around(monkeypatch: pytest.MonkeyPatch, here: Path, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("SLURM_", "BUSBW_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BUSBW_PROGRAMS", str(tmp_path))


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Returns the stdout of a successful command, else its error message."""
    assert main(["launch", "slurm", *words]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def dry(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    return said(capsys, "--dry-run", *words, *ALL_REDUCE)


def test_a_dry_run_needs_no_slurm_and_touches_nothing(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    text = dry(capsys, "--nodes", "2")
    assert "sbatch --parsable --export=ALL --job-name=busbw-all-reduce-" in text
    assert f" {here}/busbw-slurm/busbw-all-reduce-" in text
    assert "#SBATCH --nodes=2\n" in text
    assert "all_reduce_perf -f 2 -b 8 -e 8 --records -" in text
    assert list(here.iterdir()) == []


def test_options_of_the_job_go_to_slurm(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("partition", "account", "qos", "time", "reservation", "constraint", "nodelist", "exclude")
    words = [word for name in given for word in (f"--{name}", f"my-{name}")]
    text = dry(capsys, *words, "--slurm-arg=--mem=0", "--srun-arg=--mem-bind=local", "--shared")
    for name in given:
        assert f"#SBATCH --{name}=my-{name}\n" in text
    assert "#SBATCH --mem=0\n" in text
    assert "--exclusive" not in text
    (step,) = [line for line in text.splitlines() if line.startswith("  srun ")]
    assert "--mem-bind=local" in step


def test_short_options_are_those_of_slurm(capsys: pytest.CaptureFixture[str]) -> None:
    """The engine's flags after the collective keep their meaning."""
    short = ["-p", "gpu", "-N", "3", "-t", "10", "-w", "n[1-3]", "-A", "team", "-C", "h100", "-x", "n9", "-q", "high"]
    long = ["--partition=gpu", "--nodes=3", "--time=10", "--nodelist=n[1-3]", "--account=team"]
    long += ["--constraint=h100", "--exclude=n9", "--qos=high"]
    shown = []
    for options in (short, long):
        assert main(["launch", "slurm", "--dry-run", *options, "--", "all_reduce", "-t", "2", "-w", "5"]) == 0
        shown.append(re.sub(r"busbw-all-reduce-[0-9a-f]+", "NAME", capsys.readouterr().out))
    assert shown[0] == shown[1]
    for option in long:
        assert option in shown[0].replace("'", "")
    assert "-t 2 -w 5" in shown[0]


def test_a_printed_script_has_no_secret(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["--env", "HF_TOKEN=hush", "--env=MY_KEY=hush"]
    words = ["launch", "slurm", "--print-script", "--program-path", "/opt/bin", *secrets, "--", "all_reduce"]
    monkeypatch.setattr("sys.argv", ["busbw", *words])
    assert main(words) == 0
    script = capsys.readouterr().out
    assert "hush" not in script
    assert "--env 'HF_TOKEN=(redacted)'" in script
    assert "${MY_KEY?" in script


def test_an_export_that_drops_a_secret_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["launch", "slurm", "--dry-run", "--env", "HF_TOKEN=hush"]
    assert main([*options, "--slurm-arg=--export=NONE", "--", "all_reduce"]) == 2
    assert "--export=NONE would not pass on --env HF_TOKEN" in capsys.readouterr().err
    assert main([*options, "--slurm-arg=--export=ALL,A=1", "--", "all_reduce"]) == 0


@pytest.mark.parametrize(
    ("words", "flags", "per_node"),
    [
        ([], [], 1),
        (["--gpus-per-node", "8"], [], 8),
        (["--gpus-per-node", "8"], ["-g", "8"], 1),
        (["--gpus-per-node", "8"], ["-t", "2", "-g", "2"], 2),
        (["--machine-type", "p5.48xlarge"], [], 8),
        (["--machine-type", "p5.48xlarge", "--processes-per-node", "3"], [], 3),
    ],
)
def test_processes_on_a_node(
    capsys: pytest.CaptureFixture[str], words: list[str], flags: list[str], per_node: int
) -> None:
    text = said(capsys, "--dry-run", "--nodes", "2", *words, *ALL_REDUCE, *flags)
    assert f"#SBATCH --ntasks-per-node={per_node}\n" in text
    assert f"#SBATCH --ntasks={2 * per_node}\n" in text


def test_a_machine_type_requests_its_gpus_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert "#SBATCH --gpus-per-node=8\n" in dry(capsys, "--machine-type", "p5.48xlarge")
    text = dry(capsys, "--machine-type", "p5.48xlarge", "--gpus-per-node", "0")
    assert "--gpus-per-node" not in text
    assert "#SBATCH --ntasks-per-node=8\n" in text


def test_in_an_allocation_it_is_a_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    text = dry(capsys, "--processes-per-node", "2")
    assert "sbatch" not in text
    assert "--nodes=3 --ntasks=6 --ntasks-per-node=2" in text
    assert "BUSBW_TOKEN=<token>" in text
    assert "--overlap" not in text
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert "--overlap" in dry(capsys)
    monkeypatch.setenv("SLURM_STEP_ID", "4294967290")  # the interactive one of salloc
    assert "--overlap" not in dry(capsys)
    assert "sbatch --parsable" in dry(capsys, "--submit-with", "sbatch", "--partition", "gpu")


@pytest.mark.parametrize(
    ("variables", "words", "per_node"),
    [
        ({"SLURM_NTASKS_PER_NODE": "4"}, [], 4),
        ({"SLURM_GPUS_ON_NODE": "8"}, [], 8),
        ({"SLURM_NTASKS_PER_NODE": "4", "SLURM_GPUS_ON_NODE": "8"}, [], 4),
        ({"SLURM_NTASKS_PER_NODE": "4"}, ["--processes-per-node", "2"], 2),
        ({"SLURM_NTASKS_PER_NODE": "4"}, ["--machine-type", "p5.48xlarge"], 8),
        ({"SLURM_NTASKS_PER_NODE": "garbage"}, [], 1),
        # Variables that salloc sets in a shell on a login node, which is not part of the job and has no GPUs of it.
        ({"SLURM_GPUS_PER_NODE": "8"}, [], 8),
        ({"SLURM_GPUS_PER_NODE": "h100:8"}, [], 8),
        ({"SLURM_GPUS_PER_NODE": "h100:4,a100:2"}, [], 6),
        ({"SLURM_GPUS_PER_NODE": "garbage"}, [], 1),
        ({"SLURM_GPUS": "16"}, [], 8),
        ({"SLURM_GPUS": "h100:8,a100:4"}, [], 6),
        ({"SLURM_GPUS": "garbage"}, [], 1),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_GPUS_PER_NODE": "8", "SLURM_GPUS": "4"}, [], 4),
        ({"SLURM_GPUS_PER_NODE": "8", "SLURM_GPUS": "4"}, [], 8),
        ({"SLURM_GPUS_PER_NODE": "h100:8"}, ["--processes-per-node", "2"], 2),
    ],
)
def test_processes_on_a_node_of_an_allocation(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    words: list[str],
    per_node: int,
) -> None:
    for name, value in {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "2", **variables}.items():
        monkeypatch.setenv(name, value)
    assert f" --ntasks-per-node={per_node} " in dry(capsys, *words)


def test_a_container_has_the_program_on_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    text = dry(capsys, "--container-image", "registry.example#busbw:1", "--container-mounts", "/a:/b")
    assert "'--container-image=registry.example#busbw:1' --container-mounts=/a:/b" in text
    assert "sh all_reduce_perf " in text
    assert "sh /opt/all_reduce_perf " in dry(capsys, "--container-image", "x.sqsh", "--program-path", "/opt")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--container-mounts", "/a:/b"], "--container-mounts needs --container-image"),
        (["--submit-with", "srun", "--detach"], "--output-folder and --detach are for batch jobs"),
        (["--submit-with", "srun", "--output-folder", "x"], "--output-folder and --detach are for batch jobs"),
        (["--repeat", "2", "--records", "x.jsonl"], "--records takes one run"),
        (["--detach", "--records", "x.jsonl"], "--records takes one run"),
        (["--slurm-arg", "mem=0"], '--slurm-arg "mem=0" is not an option'),
        (["--slurm-arg=--output=x"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=--array=1-3"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=-a1-2"], "--slurm-arg=-a1-2: busbw sets"),
        (["--slurm-arg=--arr=1-2"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=-Ha1-2"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=--wait"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=-W"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=--clusters=b"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (["--slurm-arg=-Mb"], "busbw sets the options for output, cluster, repetition and waiting itself"),
        (
            ["--submit-with", "srun", "--slurm-arg=-ox"],
            "busbw sets the options for output, cluster, repetition and waiting itself",
        ),
        (
            ["--submit-with", "srun", "--slurm-arg=--cluster=b"],
            "busbw sets the options for output, cluster, repetition and waiting itself",
        ),
        (["--output-folder", "50%", "--program-path", "x"], "Slurm cannot write to a folder with the name"),
        (["--nodes", "0"], "--nodes"),
        (["--hostfile", "nowhere"], "cannot read --hostfile nowhere"),
        (["--machine-type", "p99"], "p99"),
    ],
)
def test_usage_errors_are_refused(
    capsys: pytest.CaptureFixture[str], here: Path, words: list[str], sentence: str
) -> None:
    error = said(capsys, *words, *ALL_REDUCE, code=2)
    assert sentence in error
    assert error.count("\n") == 1
    assert list(here.iterdir()) == []


def test_containers_get_a_longer_join_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = ["--container-image", "x.sqsh"]
    assert "BUSBW_JOIN_TIMEOUT_S" not in dry(capsys)
    assert "export BUSBW_JOIN_TIMEOUT_S=600\n" in dry(capsys, *image)
    assert "export BUSBW_JOIN_TIMEOUT_S=20\n" in dry(capsys, *image, "--join-timeout", "20")
    assert "export BUSBW_JOIN_TIMEOUT_S=30\n" in dry(capsys, *image, "--env", "BUSBW_JOIN_TIMEOUT_S=30")
    monkeypatch.setenv("BUSBW_JOIN_TIMEOUT_S", "40")
    assert "BUSBW_JOIN_TIMEOUT_S" not in dry(capsys, *image)  # the environment goes along as it is


def test_similar_options_of_slurm_are_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--wait-all-nodes=1", "--account=x", "-Ax", "--exclude=n1", "-wn1", "--mem=0"):
        assert f"#SBATCH {option}\n" in dry(capsys, f"--slurm-arg={option}")


def test_a_heterogeneous_allocation_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_HET_SIZE", "2")
    assert "the allocation 12 has 2 components (SLURM_HET_SIZE=2)" in said(capsys, *ALL_REDUCE, code=2)
    assert "sbatch " in dry(capsys, "--submit-with", "sbatch")


@pytest.mark.parametrize("clusters", ["a,b", "all"])
def test_several_clusters_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clusters: str
) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "a")
    dry(capsys)
    monkeypatch.setenv("SLURM_CLUSTERS", clusters)
    assert f"SLURM_CLUSTERS={clusters} names several" in said(capsys, *ALL_REDUCE, code=2)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ([], "--cpus-per-task=24 "),
        (["--partition", "big"], "--cpus-per-task=48 "),
        (["--partition", "big,small"], "--cpus-per-task=24 "),
        (["--nodelist", "n[2-3]", "--partition", "big"], "--cpus-per-task=64 "),
        (["--shared"], ""),
        (["--srun-arg=--cpus-per-task=2"], "--cpus-per-task=2 "),
        (["--srun-arg=-c2"], ""),
        (["--slurm-arg=--exclusive=user"], ""),
        (["--partition", "none"], ""),
    ],
)
def test_a_job_of_srun_gets_all_processors_of_its_own_nodes(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    option: str,
) -> None:
    fake = FakeSlurm(tmp_path)
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    fake.says("sinfo", "n1 small*\nn2 big\nn3 big\nn4 big\n")
    nodes = (("n1", "CPUEfctv=48 CPUTot=64"), ("n2", "CPUTot=128"), ("n3", "CPUTot=128"), ("n4", "CPUTot=96"))
    fake.says(
        "scontrol", "".join(f"NodeName={name} Arch=x86_64 {processors} State=IDLE\n" for name, processors in nodes)
    )
    text = dry(capsys, "--submit-with", "srun", "--processes-per-node", "2", *words)
    assert option in text
    assert text.count("--cpus-per-task") == bool(option)


def test_without_slurm(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    error = said(capsys, "--program-path", "x", *ALL_REDUCE, code=3)
    assert error == "busbw: sbatch not found; launch on a machine with Slurm's commands\n"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_an_existing_output_folder_is_kept(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    here: Path,
    tmp_path: Path,
    detach: tuple[str, ...],
) -> None:
    FakeSlurm(tmp_path)
    monkeypatch.setenv("FAKE", str(tmp_path))
    (here / "results").mkdir()
    (here / "results" / "kept").touch()
    error = said(capsys, "--output-folder", "results", *detach, "--program-path", "x", *ALL_REDUCE, code=3)
    assert "set another --output-folder" in error
    assert (here / "results" / "kept").exists()


def test_a_dry_run_with_topology_order(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    text = dry(capsys, "--topology-order", "--nodes", "2")
    assert "NODES-BY-SWITCH stands for Slurm's list of nodes" in text
    assert "printf '%s\\n' NODES-BY-SWITCH >" in text
    assert list(here.iterdir()) == []
    error = said(capsys, "--topology-order", "--program-path", "x", *ALL_REDUCE, code=3)
    assert "scontrol not found" in error


def test_srun_orders_no_nodes_that_it_does_not_know_yet(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    words = ["--topology-order", "--submit-with", "srun", "--program-path", "x"]
    error = said(capsys, *words, *ALL_REDUCE, code=2)
    assert (
        "--topology-order needs known nodes, but srun's own job gets its nodes later; set --submit-with sbatch" in error
    )


def test_a_job_does_not_go_on_after_a_step_without_a_record(
    monkeypatch: pytest.MonkeyPatch, here: Path, tmp_path: Path
) -> None:
    fake = FakeSlurm(tmp_path)
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    folder = here / "job"
    folder.mkdir()
    (folder / "job.json").write_text('{"job": "12", "steps": 3, "collective": "all_reduce"}')
    for end, text in (("out", "# a table\n"), ("err", ""), ("code", "0\n")):
        (folder / f"step-1.{end}").write_text(text)
    assert main(["launch", "attach", str(folder)]) == 3
    assert fake.asked("scancel") == ["scancel 12"]


def test_attach_without_a_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["launch", "attach", str(tmp_path / "nowhere")]) == 2
    assert "is not the folder of a Slurm job" in capsys.readouterr().err


def test_an_interrupt_before_the_submission(
    monkeypatch: pytest.MonkeyPatch, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(slurm_steps, "execute_plan", interrupted)
    said(capsys, "--program-path", "x", *ALL_REDUCE, code=130)
