"""`busbw launch kubernetes`: options of the launcher `busbw.launchers.kubernetes`, which starts a pod on each node."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import click

from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.engine_flags import used_flags
from busbw.cli.options.engine_words import EngineCommand
from busbw.launchers import kubernetes as launcher
from busbw.launchers.kubernetes.machine_type import with_machine_type
from busbw.launchers.kubernetes.target import (
    DEFAULT_PORT,
    Kind,
    KubernetesTarget,
    parse_pair,
    parse_quantity,
    parse_toleration,
)

_GPU = "nvidia.com/gpu"


@click.command(cls=EngineCommand, context_settings=COMMAND_SETTINGS)
@click.option("--nodes", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Number of nodes.")
@click.option("--image", required=True, metavar="IMAGE", help="Container image with the programs (deploy/Dockerfile).")
@click.option(
    "--workload-kind",
    "kind",
    type=click.Choice(get_args(Kind)),
    default="job",
    show_default=True,
    help="Indexed Job needs no operator; JobSet and MPIJob need theirs.",
)
@renamed_option("--kind", "--workload-kind")
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the job.  [default: the context's]")
@click.option("--gpus", type=click.IntRange(min=0), metavar="N", help=f"GPUs per pod ({_GPU}).")
@click.option(
    "--processes-per-node",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only with --workload-kind mpijob.  [default: one rank per GPU]",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Resource of each pod, such as vpc.amazonaws.com/efa=32, rdma/ib=1, hugepages-2Mi=5120Mi or memory=64Gi. "
    "[default: requests of 1 CPU and 1Gi per rank]",
)
@click.option("--shm", default="", metavar="AMOUNT", help="Size of /dev/shm, such as 16Gi.  [default: 1Gi]")
@click.option(
    "--node-selector", "selectors", multiple=True, metavar="LABEL=VALUE", help="Use only nodes with this label."
)
@click.option(
    "--toleration", "tolerations", multiple=True, metavar="KEY[=VALUE][:EFFECT]", help="Tolerate nodes with this taint."
)
@renamed_option("--tolerate", "--toleration")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="NAME",
    help="Linux capability of the container, such as IPC_LOCK; root only.",
)
@click.option(
    "--run-as-user",
    type=click.IntRange(min=0),
    metavar="UID",
    help="User of the container; 0: root.  [default: the image's, not root]",
)
@click.option("--host-network", is_flag=True, help="Use the network of the nodes in the pods.")
@click.option("--share-nodes", is_flag=True, help="Allow several pods on one node.")
@click.option(
    "--image-pull-secret",
    "pull_secret",
    default="",
    metavar="NAME",
    help="Secret with the credentials of the registry.",
)
@click.option(
    "--image-pull-policy",
    "pull_policy",
    type=click.Choice(["Always", "IfNotPresent", "Never"]),
    help="When nodes pull the image.",
)
@click.option(
    "--service-account", default="", metavar="NAME", help="Service account of the pods; its token is not mounted."
)
@click.option("--priority-class", default="", metavar="NAME", help="Priority class of the pods.")
@click.option("--queue", default="", metavar="NAME", help="Local queue of Kueue, which then starts the job.")
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    metavar="PORT",
    help="Port of process 0.",
)
@click.option(
    "--ssh-folder",
    default=KubernetesTarget.ssh_folder,
    metavar="FOLDER",
    show_default=True,
    help="Key folder of the image's sshd, for MPIJob.",
)
@click.option(
    "--pending-timeout",
    "pending_limit_s",
    type=click.IntRange(min=0),
    default=KubernetesTarget.pending_limit_s,
    show_default=True,
    metavar="SECONDS",
    help="Give up after SECONDS if pods cannot start (image, no fitting node); 0: never.",
)
@renamed_option("--patience", "--pending-timeout")
@click.option(
    "--active-deadline",
    "active_limit_s",
    type=click.IntRange(min=1),
    default=KubernetesTarget.active_limit_s,
    show_default=True,
    metavar="SECONDS",
    help="The cluster ends the job after SECONDS, including its wait for nodes.",
)
@click.option("--keep", is_flag=True, help="Keep the job in the cluster for an hour after its end.")
@common_options
def kubernetes(
    options: LaunchOptions,
    nodes: int,
    gpus: int | None,
    processes_per_node: int | None,
    resources: tuple[str, ...],
    selectors: tuple[str, ...],
    tolerations: tuple[str, ...],
    pull_policy: str | None,
    **target_values: Any,
) -> int:
    """Starts COLLECTIVE in a Kubernetes cluster through kubectl, as one pod per node."""
    if target_values["shm"]:
        parse_quantity(target_values["shm"])  # raises an error if invalid
    # The other options have the names of fields of the target.
    target = KubernetesTarget(
        resources=_resource_amounts(resources, gpus),
        node_selector=tuple(parse_pair(text, "--node-selector topology.kubernetes.io/zone=a") for text in selectors),
        tolerations=tuple(map(parse_toleration, tolerations)),
        pull_policy=pull_policy or "",
        **target_values,
    )
    if options.machine_type:
        target = with_machine_type(target, options.machine_type)
    device_count = int(parse_quantity(dict(target.resources).get(_GPU, "0")))
    if target.kind == "mpijob":
        default_processes = max(device_count // options.ranks_per_process, 1)
    else:
        # One process per pod. By default, its threads are one rank per GPU.
        default_processes = 1
        sets_ranks = bool(used_flags(options.flags) & {"-t", "-g"})
        if device_count > 1 and options.measures and not sets_ranks:
            options = replace(options, flags=("-t", str(device_count), *options.flags))
    job = options.job(
        options.program_path or options.program_name,
        nodes=nodes,
        processes_per_node=processes_per_node or default_processes,
        # 0: `--gpus 0` requests none. None: nothing states a number.
        requested_gpus=device_count if device_count > 0 else gpus,
    )
    return execute_plan(options, launcher.render(job, target), launcher.submit)


def _resource_amounts(resources: Sequence[str], gpus: int | None) -> tuple[tuple[str, str], ...]:
    """Returns the name and the amount of each resource that a pod requests."""
    amounts = dict(parse_pair(text, "--resource memory=64Gi") for text in resources)
    for amount in amounts.values():
        parse_quantity(amount)  # raises an error if invalid
    if gpus is not None:
        amounts[_GPU] = str(gpus)
    return tuple(amounts.items())
