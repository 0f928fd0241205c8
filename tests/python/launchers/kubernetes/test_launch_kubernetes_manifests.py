"""Objects of the Kubernetes launcher: equal to golden files, valid, and with the token only in the Secret."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from launch_jobs import JOB, TOKEN, expect_golden

from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.launchers.kubernetes import KubernetesPlan, KubernetesTarget, render
from busbw.launchers.kubernetes.machine_type import with_machine_type
from busbw.launchers.kubernetes.manifests import created_workload, resume_patch, with_owner
from busbw.launchers.kubernetes.target import Kind, Toleration
from busbw.launchers.machine_types import machine_type

ONE_EACH = replace(JOB, processes_per_node=1, program="all_reduce_perf")
GPUS = replace(ONE_EACH, arguments=("-t", "8", *JOB.arguments), ranks_per_process=8)
CPU = KubernetesTarget(image="registry.example/busbw:cpu")
P5 = with_machine_type(KubernetesTarget(image="registry.example/busbw:efa"), machine_type.load("p5.48xlarge"))
MPI_IMAGE = "registry.example/busbw:efa-mpijob"
INFINIBAND = KubernetesTarget(
    image="registry.example/busbw:ib",
    context="hpc",
    namespace="bench",
    resources=(("nvidia.com/gpu", "8"), ("rdma/hca_shared_devices_a", "1"), ("hugepages-2Mi", "1Gi")),
    node_selector=(("fabric", "ndr400"),),
    tolerations=(Toleration("nvidia.com/gpu"), Toleration("dedicated", "hpc", "NoSchedule")),
    shm="64Gi",
    capabilities=("IPC_LOCK",),
    pull_policy="Always",
    pull_secret="registry",
    service_account="bench",
    priority_class="high",
    queue="physics",
    run_as_user=1000,
    host_network=True,
    port=4242,
    keep=True,
)

RENDERED: dict[str, KubernetesPlan] = {
    "cpu": render(ONE_EACH, CPU),
    "one_node": render(replace(ONE_EACH, nodes=1), CPU),
    "p5.48xlarge": render(replace(GPUS, machine_type=machine_type.load("p5.48xlarge")), P5),
    "infiniband": render(GPUS, INFINIBAND),
    "jobset": render(GPUS, replace(CPU, kind="jobset", resources=(("nvidia.com/gpu", "8"),))),
    "mpijob": render(replace(JOB, program="all_reduce_perf"), replace(P5, kind="mpijob", image=MPI_IMAGE)),
    "shared_nodes": render(ONE_EACH, replace(CPU, share_nodes=True)),
}

# The same by the command line, for people to look at and to change by hand.
DEPLOYED = {
    "cpu": "--image registry.example/busbw:cpu -- all_reduce -b 8 -e 64M -f 2",
    "p5.48xlarge": "--image registry.example/busbw:efa --machine-type p5.48xlarge -- all_reduce -b 8 -e 16G -f 2",
    "hgx-h100": "--image registry.example/busbw:ib --machine-type hgx-h100 --capability IPC_LOCK --shm 64Gi "
    "-- all_reduce -b 8 -e 16G -f 2",
    "jobset": "--image registry.example/busbw:ib --workload-kind jobset --gpus 8 -- all_reduce -b 8 -e 16G -f 2",
    "mpijob": "--image registry.example/busbw:efa-mpijob --workload-kind mpijob --machine-type p5.48xlarge "
    "-- all_reduce -b 8 -e 16G -f 2",
}

# The fields of the two foreign kinds that are used here, as their references describe them.
_TEMPLATE = {"type": "object", "required": ["metadata", "spec"]}
_REPLICAS = {
    "type": "object",
    "required": ["replicas", "restartPolicy", "template"],
    "additionalProperties": False,
    "properties": {
        "replicas": {"type": "integer", "minimum": 1},
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "template": _TEMPLATE,
    },
}
KINDS = {
    "JobSet": {
        "type": "object",
        "required": ["replicatedJobs"],
        "additionalProperties": False,
        "properties": {
            "suspend": {"type": "boolean"},
            "ttlSecondsAfterFinished": {"type": "integer", "minimum": 0},
            "failurePolicy": {"type": "object", "properties": {"maxRestarts": {"type": "integer"}}},
            "network": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "enableDNSHostnames": {"type": "boolean"},
                    "publishNotReadyAddresses": {"type": "boolean"},
                    "subdomain": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$"},
                },
            },
            "replicatedJobs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "template"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string"},
                        "replicas": {"type": "integer"},
                        "template": {"type": "object", "required": ["spec"]},
                    },
                },
            },
        },
    },
    "MPIJob": {
        "type": "object",
        "required": ["mpiReplicaSpecs"],
        "additionalProperties": False,
        "properties": {
            "slotsPerWorker": {"type": "integer", "minimum": 1},
            "sshAuthMountPath": {"type": "string"},
            "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
            "runPolicy": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
                    "backoffLimit": {"type": "integer"},
                    "activeDeadlineSeconds": {"type": "integer", "minimum": 1},
                    "ttlSecondsAfterFinished": {"type": "integer"},
                },
            },
            "mpiReplicaSpecs": {
                "type": "object",
                "required": ["Launcher", "Worker"],
                "additionalProperties": False,
                "properties": {"Launcher": _REPLICAS, "Worker": _REPLICAS},
            },
        },
    },
}


def check(manifest: dict[str, Any]) -> None:
    """Holds a manifest against the schema of its kind; what it has inside of built-in kinds against theirs."""
    kind, spec = manifest["kind"], manifest.get("spec", {})
    if kind not in KINDS:
        kubernetes_validate.validate(manifest, "1.34", strict=True)
        return
    jsonschema.validate(spec, KINDS[kind])
    if kind == "JobSet":
        for replicated in spec["replicatedJobs"]:
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **replicated["template"]}
            kubernetes_validate.validate(job, "1.34", strict=True)
    else:
        for replicas in spec["mpiReplicaSpecs"].values():
            kubernetes_validate.validate(
                {"apiVersion": "v1", "kind": "Pod", **replicas["template"]}, "1.34", strict=True
            )


def pods_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The specification of every kind of pod that a workload makes."""
    spec = manifest["spec"]
    if manifest["kind"] == "MPIJob":
        return [replicas["template"]["spec"] for replicas in spec["mpiReplicaSpecs"].values()]
    job = spec["replicatedJobs"][0]["template"]["spec"] if manifest["kind"] == "JobSet" else spec
    return [job["template"]["spec"]]


@pytest.mark.parametrize("name", RENDERED)
def test_the_objects_match_the_golden_files(name: str) -> None:
    expect_golden(f"kubernetes/{name}.yaml", RENDERED[name].text())


@pytest.mark.parametrize("name", RENDERED)
def test_every_object_is_what_its_kind_demands(name: str) -> None:
    job_manifests = RENDERED[name].job_manifests
    for manifest in (job_manifests.workload, created_workload(job_manifests), *job_manifests.owned):
        check(manifest)
        check(with_owner(manifest, job_manifests.workload, "0a1b2c3d-0000-4000-8000-000000000000"))


@pytest.mark.parametrize("name", RENDERED)
def test_a_dry_run_shows_the_objects_that_are_sent(name: str) -> None:
    shown = list(yaml.safe_load_all(RENDERED[name].text()))
    job_manifests = RENDERED[name].job_manifests
    assert shown == json.loads(json.dumps([*job_manifests.owned, job_manifests.workload]).replace(TOKEN, "<token>"))


@pytest.mark.parametrize("name", RENDERED)
def test_the_token_is_only_in_the_secret(name: str) -> None:
    plan = RENDERED[name]
    others = [one for one in (plan.job_manifests.workload, *plan.job_manifests.owned) if one["kind"] != "Secret"]
    assert TOKEN not in json.dumps(others)
    (secret,) = [one for one in plan.job_manifests.owned if one["kind"] == "Secret"]
    assert secret["stringData"] == {"BUSBW_TOKEN": TOKEN}
    assert TOKEN not in repr(plan.commands)
    for pod in pods_of(plan.job_manifests.workload):
        variables = {one["name"]: one for one in pod["containers"][0].get("env", [])}
        assert "value" not in variables.get("BUSBW_TOKEN", {})


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_secret_variables_are_only_in_the_secret(kind: Kind) -> None:
    variables = {
        "HF_TOKEN": "hush-1",
        "NCCL_NET_AUTH": "hush-2",
        "token": "hush-3",
        "PROXY": "http://me:hush-4@proxy:80",
    }
    job = replace(ONE_EACH, environment=(*variables.items(), ("NOTE", "plain")))
    plan = render(job, replace(CPU, kind=kind))
    (secret,) = [one for one in plan.job_manifests.owned if one["kind"] == "Secret"]
    assert secret["stringData"] == {**variables, "BUSBW_TOKEN": TOKEN}
    check(secret)
    others = [one for one in (plan.job_manifests.workload, *plan.job_manifests.owned) if one["kind"] != "Secret"]
    assert "hush" not in json.dumps(others) + repr(plan.commands)
    container = pods_of(plan.job_manifests.workload)[0]["containers"][0]
    sources = {one["name"]: one.get("valueFrom", {}).get("secretKeyRef", {}).get("key") for one in container["env"]}
    assert all(sources[name] == name for name in variables)
    assert sources["NOTE"] is None
    if kind == "mpijob":  # mpirun passes them on
        exported = [
            word for flag, word in zip(container["command"], container["command"][1:], strict=False) if flag == "-x"
        ]
        assert set(variables) <= set(exported)


@pytest.mark.parametrize("name", RENDERED)
def test_pods_state_what_a_cluster_needs_to_place_and_end_them(name: str) -> None:
    workload = RENDERED[name].job_manifests.workload
    *_, measuring = pods_of(workload)
    (container,) = measuring["containers"]
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
    assert "cpu" not in container["resources"].get("limits", {})
    assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    size = "64Gi" if name == "infiniband" else "1Gi"
    assert measuring["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    assert all(pod["securityContext"]["runAsNonRoot"] is True for pod in pods_of(workload))
    limits = re.findall(r'"activeDeadlineSeconds": (\d+)', json.dumps(workload))
    assert limits == ["86400"]
    zones = "topology.kubernetes.io/zone" in json.dumps(measuring.get("affinity", {}).get("podAffinity", {}))
    assert zones == (name != "one_node")


@pytest.mark.parametrize("name", RENDERED)
def test_every_object_has_the_recommended_labels(name: str) -> None:
    job_manifests = RENDERED[name].job_manifests
    expected = {
        "app.kubernetes.io/name": "busbw",
        "app.kubernetes.io/instance": JOB.name,
        "app.kubernetes.io/component": "all_reduce_perf",
        "app.kubernetes.io/part-of": "busbw",
        "app.kubernetes.io/managed-by": "busbw-launch",
    }
    for one in (job_manifests.workload, *job_manifests.owned):
        assert expected.items() <= one["metadata"]["labels"].items()


def test_requests_are_one_cpu_and_one_gib_per_rank_unless_set() -> None:
    def container(**changes: Any) -> dict[str, Any]:
        (pod,) = pods_of(render(GPUS, replace(CPU, **changes)).job_manifests.workload)
        resources: dict[str, Any] = pod["containers"][0]["resources"]
        return resources

    assert container() == {"requests": {"cpu": "8", "memory": "8Gi"}}
    mine = {"cpu": "96", "memory": "200Gi"}
    assert container(resources=tuple(mine.items())) == {"limits": mine, "requests": mine}
    assert container(resources=(("cpu", "0"),)) == {"requests": {"memory": "8Gi"}}


def test_requested_devices_are_tolerated_once() -> None:
    def tolerations(*own: Toleration) -> list[dict[str, str]]:
        target = replace(CPU, resources=(("nvidia.com/gpu", "8"), ("memory", "1Gi")), tolerations=own)
        (pod,) = pods_of(render(ONE_EACH, target).job_manifests.workload)
        return pod["tolerations"]  # type: ignore[no-any-return]

    assert tolerations() == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    own = Toleration("nvidia.com/gpu", "present", "NoExecute")
    assert tolerations(own) == [own.manifest()]


def test_a_machine_type_that_needs_to_lock_memory_gets_the_capability() -> None:
    target = with_machine_type(CPU, machine_type.load("nd-h100-v5"))
    (pod,) = pods_of(render(GPUS, target).job_manifests.workload)
    assert pod["containers"][0]["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert (
        "add"
        not in pods_of(RENDERED["p5.48xlarge"].job_manifests.workload)[0]["containers"][0]["securityContext"][
            "capabilities"
        ]
    )


@pytest.mark.parametrize(
    ("image", "is_fixed"),
    [
        ("busbw", False),
        ("registry:5000/busbw", False),
        ("registry:5000/busbw:latest", False),
        ("registry:5000/busbw:0.2.0", True),
        ("busbw@sha256:" + "0" * 64, True),
        ("busbw:latest@sha256:" + "0" * 64, True),
    ],
)
def test_an_image_that_may_change_is_named(image: str, is_fixed: bool) -> None:
    remarks = " ".join(render(ONE_EACH, replace(CPU, image=image)).remarks)
    assert ("use --image NAME:TAG or NAME@sha256:DIGEST" in remarks) != is_fixed


@pytest.mark.parametrize("name", RENDERED)
def test_no_pod_is_privileged_or_gets_an_account(name: str) -> None:
    for pod in pods_of(RENDERED[name].job_manifests.workload):
        assert pod["automountServiceAccountToken"] is False
        assert pod.get("restartPolicy", "Never") == "Never"
        assert "privileged" not in json.dumps(pod)
        assert "hostPath" not in json.dumps(pod)


@pytest.mark.parametrize("name", RENDERED)
def test_the_first_process_is_found_by_the_name_that_its_pod_has(name: str) -> None:
    workload = RENDERED[name].job_manifests.workload
    own = workload["metadata"]["name"]
    stores = {
        one["value"]
        for pod in pods_of(workload)
        for one in pod["containers"][0].get("env", [])
        if one["name"] == "BUSBW_RENDEZVOUS"
    }
    first = {"Job": f"{own}-0", "JobSet": f"{own}-ranks-0-0", "MPIJob": f"{own}-worker-0"}[workload["kind"]]
    port = 4242 if name == "infiniband" else 29555
    assert stores == {f"tcp://{first}.{own}:{port}"}
    assert len(first) <= 63


def test_a_label_selects_the_pods_of_one_job_alone() -> None:
    job_manifests = RENDERED["cpu"].job_manifests
    (service,) = [one for one in job_manifests.owned if one["kind"] == "Service"]
    labels = job_manifests.workload["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert JOB.name in service["spec"]["selector"].values()
    assert service["metadata"]["name"] == job_manifests.workload["spec"]["template"]["spec"]["subdomain"]


def test_it_starts_suspended_and_is_resumed() -> None:
    job_manifests = RENDERED["cpu"].job_manifests
    assert created_workload(job_manifests)["spec"]["suspend"] is True
    assert "suspend" not in job_manifests.workload["spec"]
    assert resume_patch() == {"spec": {"suspend": False}}
    mpijob = RENDERED["mpijob"].job_manifests
    assert created_workload(mpijob) == mpijob.workload


def expanded(text: str, variables: dict[str, str]) -> str:
    """Expands a container's words like Kubernetes: `$$` is `$`, `$(NAME)` is a value if NAME is known."""

    def one(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def test_the_rule_of_expansion() -> None:
    known = {"A": "secret"}
    examples = {"$(A)": "secret", "$$(A)": "$(A)", "$$$(A)": "$secret", "$(B)": "$(B)", "$A$": "$A$", "$(A": "$(A"}
    assert {text: expanded(text, known) for text in examples} == examples


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
@given(st.text("$()A ", max_size=8))
@example("$$(BUSBW_TOKEN)")
@example("$(BUSBW_TOKEN)")
@example("$$$(BUSBW_TOKEN)")
def test_words_of_the_program_are_never_taken_for_variables(kind: Kind, word: str) -> None:
    odd = replace(ONE_EACH, arguments=("--tag", word), environment=(("NOTE", word),))
    container = pods_of(render(odd, replace(CPU, kind=kind)).job_manifests.workload)[0]["containers"][0]
    variables = {"BUSBW_TOKEN": TOKEN, "A": "a"}
    words = [expanded(one, variables) for one in [*container["command"], *container.get("args", [])]]
    assert words[words.index("--tag") + 1] == word
    (note,) = [one["value"] for one in container["env"] if one["name"] == "NOTE"]
    assert expanded(note, variables) == word


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_capabilities_are_those_of_the_pods_that_measure(kind: Kind) -> None:
    plan = render(ONE_EACH, replace(CPU, kind=kind, capabilities=("IPC_LOCK",)))
    *_, measuring = pods_of(plan.job_manifests.workload)
    assert measuring["containers"][0]["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    check(plan.job_manifests.workload)


@pytest.mark.parametrize(
    ("kind", "arguments", "has_name"),
    [
        ("job", ("each-node", "busbw doctor"), True),
        ("jobset", ("each-node", "busbw doctor"), True),
        ("mpijob", ("each-node", "busbw doctor"), True),
        ("job", ("flows", "--search", "busbw find"), True),
        ("mpijob", JOB.arguments, False),
        ("job", JOB.arguments, False),
    ],
)
def test_pods_of_doctor_and_find_know_the_name_of_their_node(
    kind: Kind, arguments: tuple[str, ...], has_name: bool
) -> None:
    plan = render(replace(ONE_EACH, arguments=arguments), replace(CPU, kind=kind))
    check(plan.job_manifests.workload)
    # In an MPIJob, mpirun's pod comes first. All processes get its environment, which must not name its node.
    *_, measuring = pods_of(plan.job_manifests.workload)
    variables = measuring["containers"][0].get("env", [])
    assert "BUSBW_NODENAME" not in str([pod for pod in pods_of(plan.job_manifests.workload) if pod is not measuring])
    fields = [each["valueFrom"]["fieldRef"]["fieldPath"] for each in variables if each["name"] == "BUSBW_NODENAME"]
    assert fields == (["spec.nodeName"] if has_name else [])


def test_a_capability_that_has_no_effect_is_named() -> None:
    def remarks(**changes: Any) -> str:
        return " ".join(render(ONE_EACH, replace(CPU, **changes)).remarks)

    assert remarks() == ""
    assert remarks(capabilities=("IPC_LOCK",), run_as_user=0) == ""
    for changes in ({}, {"run_as_user": 1000}, {"kind": "mpijob"}, {"kind": "mpijob", "run_as_user": 0}):
        words = remarks(capabilities=("IPC_LOCK",), **changes)
        assert "root" in words
        assert "LimitMEMLOCK" in words
    assert "LimitMEMLOCK" not in remarks(capabilities=("NET_RAW",))
    assert "# IPC_LOCK: has an effect only for root" in RENDERED["infiniband"].text()


def test_several_processes_in_a_pod_are_for_mpijob() -> None:
    with pytest.raises(UsageError, match="2 processes per node need --workload-kind mpijob"):
        render(JOB, CPU)


def test_user_settings_override_the_machine_type() -> None:
    mine = KubernetesTarget(image="x", resources=(("vpc.amazonaws.com/efa", "16"), ("hugepages-2Mi", "0")), shm="1Gi")
    where = with_machine_type(mine, machine_type.load("p5.48xlarge"))
    assert dict(where.resources)["vpc.amazonaws.com/efa"] == "16"
    assert "hugepages-2Mi" not in dict(where.resources)
    assert where.shm == "1Gi"
    assert dict(where.resources)["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize("name", DEPLOYED)
def test_the_templates_are_what_the_command_prints(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("busbw.cli.launch.options.secrets.token_hex", lambda count: "example" if count < 8 else TOKEN)
    words = ["launch", "kubernetes", "--dry-run", *DEPLOYED[name].split()]
    assert main(words) == 0
    text = f"# busbw {' '.join(words)}\n{capsys.readouterr().out.rstrip()}"
    expect_golden(f"../../../deploy/kubernetes/{name}.yaml", text)
    for manifest in yaml.safe_load_all(text):
        check(manifest)


def test_a_dry_run_touches_nothing_and_needs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["launch", "kubernetes", "--dry-run", "--image", "x", "--", "all_reduce"]) == 0
    assert "kind: Job" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--node-selector", "zone"], '"zone" is not NAME=VALUE'),
        (["--resource", "memory=lots"], '"lots" is not a quantity'),
        (["--resource", "hugepages-2Mi"], '"hugepages-2Mi" is not NAME=VALUE'),
        (["--shm", "big"], '"big" is not a quantity'),
        (["--toleration", "a=b:Sometimes"], '"a=b:Sometimes" is not a toleration'),
        (["--processes-per-node", "2"], "2 processes per node need --workload-kind mpijob"),
    ],
)
def test_unclear_options_are_errors(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "kubernetes", "--dry-run", "--image", "x", *words, "--", "all_reduce"]) == 2
    assert sentence in capsys.readouterr().err


def test_gpus_become_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    dry_run = ["launch", "kubernetes", "--dry-run", "--image", "x", "--gpus", "4"]

    def words(*more: str) -> str:
        assert main([*dry_run, *more]) == 0
        *_, workload = yaml.safe_load_all(capsys.readouterr().out)
        container = pods_of(workload)[0]["containers"][0]
        return " ".join([*container["command"], *container.get("args", [])])

    assert " -t 4 " in words("--", "all_reduce")
    assert " -g 4 " in words("--", "all_reduce", "-g", "4")
    assert " -t " not in words("--", "all_reduce", "-g", "4")
    assert "-np 8 --map-by ppr:4:node" in words("--workload-kind", "mpijob", "--", "all_reduce")
    assert "-np 4 --map-by ppr:2:node" in words("--workload-kind", "mpijob", "--", "all_reduce", "-g", "2")
