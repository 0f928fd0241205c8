"""A capture holds no names, addresses and secrets, and yields the same result as the machine."""

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest
from doctor_machines import NAMES, TestMachine, load

from busbw.doctor.catalog import MACHINE_AREAS, checks_of
from busbw.doctor.cost import Job
from busbw.doctor.examination import examine
from busbw.doctor.facts import facts_of_this_machine
from busbw.doctor.model import Machine
from busbw.doctor.model.tree import Tree
from busbw.doctor.parts.traits import system_of
from busbw.doctor.result import Result
from busbw.doctor.sources.capture import Capture, Manifest, archive_bytes, capture_of, read_capture
from busbw.doctor.sources.commands import Commands
from busbw.doctor.sources.recording import Recording
from busbw.doctor.sources.redaction import names_of_this_machine, redact
from busbw.doctor.sources.this_machine import ThisMachine

SECRETS = {
    "host name": "gpunode017",
    "domain": "gpunode017.cluster.example",
    "user": "jdoe",
    "account": "mbox@mail.example.org",
    "IPv4 address": "10.37.4.219",
    "public address": "141.76.12.33",
    "IPv6 address": "fd12:3456:789a:1::5",
    "link-local address": "fe80::a288:c2ff:fe77:1234",
    "MAC address": "a0:88:c2:77:12:34",
    "GUID": "a088:c203:0077:1234",
    "GUID of ibstat": "a088c20300771234",
    "GID": "fe80:0000:0000:0000:a088:c203:0077:1234",
    "UUID": "GPU-5d4ad1f2-3c6a-2a1b-9f10-0123456789ab",
    "serial": "1650922014335",
    "GitHub token": "ghp_0123456789abcdefghij",
    "password": "hunter2hunter2",
    "job name": "secretproject",
    "node list": "rackseven",
    "user of a scratch folder": "mmuster",
    "user of another shared folder": "kwong",
    "token of Slurm": "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE2fQ.abcDEF_123",
    "cluster": "hyperion",
    "key of a session": "0123456789abcdef-fedcba9876543210",
    "comment": "reserved for Carol",
    "address of a network boot": "b0-88-c2-77-12-34",
    "key of NVIDIA": "nvapi-0123456789abcdef",
}
TEXT = """node gpunode017 (gpunode017.cluster.example), home /home/jdoe/nccl, data /scratch/jdoe
mbox@mail.example.org
inet 10.37.4.219/24 via 141.76.12.33 inet6 fd12:3456:789a:1::5 fe80::a288:c2ff:fe77:1234 ether a0:88:c2:77:12:34
Node GUID: 0xa088c20300771234 node_guid a088:c203:0077:1234 gid fe80:0000:0000:0000:a088:c203:0077:1234
GPU-5d4ad1f2-3c6a-2a1b-9f10-0123456789ab <serial>1650922014335</serial> Serial Number: 1650922014335 at 0000:1b:00.0
token=ghp_0123456789abcdefghij NodeName=rackseven001 password: hunter2hunter2 enxa088c2771234 firmware 231.2.63.0
   Reason=reserved for Carol
BOOTIF=01-b0-88-c2-77-12-34 /scratch/mmuster/lib:/fsx/kwong/lib nvapi-0123456789abcdef
"""


def machine_with_secrets() -> TestMachine:
    machine = load("dgx-h100")
    variables = {
        "HF_TOKEN": SECRETS["GitHub token"],
        "NCCL_TOPO_FILE": "/home/jdoe/topo.xml",
        "NCCL_NET": f"https://jdoe:{SECRETS['password']}@gpunode017/",
        "SLURM_JOB_NAME": "secretproject",
        "SLURM_JOB_NODELIST": "rackseven[001-064],gpunode017",
        "SLURM_JOB_USER": "jdoe",
        "SLURM_NNODES": "64",
        "SLURM_JWT": SECRETS["token of Slurm"],
        "SLURM_WORKING_CLUSTER": "hyperion:slurmctl:6817:9984:109",
        "OMPI_MCA_orte_precondition_transports": SECRETS["key of a session"],
    }
    return (
        machine.with_file("proc/sys/kernel/hostname", "gpunode017\n")
        .with_file("home/jdoe/topo.xml", TEXT)
        .with_file("sys/class/net/enxa088c2771234/address", "a0:88:c2:77:12:34")
        .with_file("sys/class/dmi/id/product_serial", "1650922014335")
        .with_output(["getent", "hosts", "gpunode017"], "10.37.4.219 gpunode017")
        .with_output(["cat", "/home/jdoe/topo.xml"], TEXT)
        .with_target("sys/class/net/enxa088c2771234", "sys/devices/x/net/enxa088c2771234")
        .with_variables(**variables)
        .unreadable("home/jdoe/secret")
    )


def recorded(machine: TestMachine) -> Capture:
    """The capture with everything of a machine, as if all had been read."""
    tree = machine.tree
    manifest = Manifest(
        targets=tree.manifest.targets,
        unreadable=tree.manifest.unreadable,
        folders={"home": ("jdoe",), "sys/class/net": ("enxa088c2771234", "ens1")},
        absent=("home/jdoe/absent",),
    )
    return Capture(tree.files, manifest)


def contents(capture: Capture) -> str:
    return gzip.decompress(archive_bytes(capture)).decode(errors="replace")


@pytest.mark.parametrize("kind", SECRETS)
def test_the_archive_holds_no_secret(kind: str) -> None:
    original = recorded(machine_with_secrets())
    assert SECRETS[kind].removeprefix("GPU-") in contents(original)
    assert SECRETS[kind].removeprefix("GPU-").lower() not in contents(redact(original)).lower()


def test_the_names_of_the_examining_user_and_host_are_replaced() -> None:
    capture = Capture({"proc/cmdline": b"host=anvil /scratch/kim/x"}, Manifest())
    replaced = redact(capture, [("host", "anvil"), ("user", "kim")])
    assert replaced.files["proc/cmdline"] == b"host=host-1 /scratch/user-1/x"
    assert all(name for _, name in names_of_this_machine())


def test_a_host_name_without_its_domain_is_equal() -> None:
    files = {"proc/sys/kernel/hostname": b"dgx1.cluster.example", "commands/scontrol show node dgx1": b"NodeName=dgx1"}
    assert redact(Capture(files, Manifest())).files == {
        "proc/sys/kernel/hostname": b"host-1.domain-1",
        "commands/scontrol show node host-1": b"NodeName=host-1",
    }


def text_of(content: str) -> str:
    return redact(Capture({"x": content.encode()}, Manifest())).files["x"].decode()


@pytest.mark.parametrize(
    "text",
    [
        "0000:1b:00.0 0000:15:01.0/0000:16:00.0 00000000:1B:00.0 pci0000:15",
        "0000:0000:0000:0000:0000:0000:0000:0000 0000:0000:0000:0000 00:00:00:00:00:00 ff:ff:ff:ff:ff:ff",
        "lspci -d ::0604 :: ::1 127.0.0.1 0.0.0.0 255.255.255.0 224.0.0.1 ff02::1",
        "Tue Nov 26 12:34:56 2024, up 1:02:03, affinity 0:1:2:3:4:5:6:7, ffffffff,00000000",
        "driver version 570.124.06, firmware-version: 231.2.63.0/pkg 231.1.162.1, fw 28.39.2048, VBIOS 96.00.61.00.01",
        "libnccl.so.2.27.5.1 rdma-core-2.1.0.4-1.el9 std::vector<a::b> 400 Gb/sec (4X NDR) MT_0000000838",
        "getty@tty1.service nvidia-imex@1.service root@ 0x0000000000000004 mlx5_0 ibp24s0 bond0 eth0.100",
        "intel_iommu=on iommu=pt console=ttyS0 serial: N/A",
        "Comment=(null)",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert text_of(text) == text


def test_a_version_file_stays() -> None:
    capture = Capture({"sys/class/infiniband/bnxt_re0/fw_ver": b"231.2.63.0"}, Manifest())
    assert redact(capture).files == capture.files


def test_equal_addresses_stay_equal_and_link_local_ones_link_local() -> None:
    text = text_of("10.1.2.3 10.1.2.9 10.1.2.3 169.254.7.1 ::ffff:10.1.2.3 ::ffff:0a01:0203")
    first, second, again, local, mapped, mapped_again = text.split()
    assert first == again != second
    assert first.startswith("10.")
    assert local.startswith("169.254.")
    assert mapped == mapped_again
    assert mapped.startswith("::ffff:")


def test_gids_and_guids_keep_their_form() -> None:
    gid, guid, mapped = text_of(
        "fe80:0000:0000:0000:a088:c203:0077:1234 a088:c203:0077:1234 0000:0000:0000:0000:0000:ffff:0a25:04db"
    ).split()
    assert re.fullmatch("fe80(:[0-9a-f]{4}){7}", gid)
    assert re.fullmatch("02[0-9a-f]{2}(:[0-9a-f]{4}){3}", guid)
    assert re.fullmatch("0000:0000:0000:0000:0000:ffff:0a[0-9a-f]{2}:[0-9a-f]{4}", mapped)


def test_keys_agree_with_the_values_that_name_them() -> None:
    replaced = redact(recorded(machine_with_secrets()))
    variables = json.loads(replaced.files["facts/environment.json"])["variables"]
    assert variables["NCCL_TOPO_FILE"].removeprefix("/") in replaced.files
    assert "HF_TOKEN" not in variables
    assert variables["SLURM_NNODES"] == "64"
    assert re.fullmatch(r"name-\d+\[001-064\],host-\d+", variables["SLURM_JOB_NODELIST"])
    assert replaced.manifest.folders["home"] == ("user-1",)


def test_bytes_that_are_not_utf_8_stay() -> None:
    assert redact(Capture({"x": b"\xff\xfe10.1.2.3\x00"}, Manifest())).files["x"] == b"\xff\xfe10.0.0.1\x00"


def categories(result: Result) -> object:
    return (
        [(finding.check, finding.severity) for finding in result.findings],
        result.passed,
        result.not_applicable,
        [each.check for each in result.could_not_check],
    )


def compare_with_its_capture(tree: Tree, folder: Path) -> None:
    recording = Recording(tree)
    checks = checks_of(*MACHINE_AREAS)
    result = examine(checks, Machine(recording), Job(system_of(Machine(recording))), limit_s=60)
    path = folder / "capture.tar.gz"
    path.write_bytes(archive_bytes(redact(capture_of(recording), names_of_this_machine())))
    machine = Machine(read_capture(path))
    assert categories(examine(checks, machine, Job(system_of(machine)), limit_s=60)) == categories(result)


@pytest.mark.parametrize("name", NAMES)
def test_the_capture_of_a_machine_yields_the_same_result(name: str, tmp_path: Path) -> None:
    compare_with_its_capture(load(name).tree, tmp_path)
    compare_with_its_capture(load(name).with_fact("limits", memlock_bytes=65536).tree, tmp_path)


def test_the_capture_of_this_machine_yields_the_same_result(tmp_path: Path) -> None:
    compare_with_its_capture(ThisMachine(facts_of_this_machine(Commands().output)), tmp_path)


def test_an_invalid_environment_is_empty() -> None:
    replaced = redact(Capture({"facts/environment.json": b"{"}, Manifest()))
    assert msgspec.json.decode(replaced.files["facts/environment.json"]) == {"variables": {}}


@pytest.mark.parametrize(
    "folder", ["/home/", "/mnt/home/", "/users/", "/Users/", "/lustre/users/", "/scratch/", "/fsx/"]
)
def test_home_folders_of_other_users_do_not_show_their_names(folder: str) -> None:
    capture = redact(Capture({"etc/nccl.conf": f"NCCL_TOPO_FILE={folder}erin/topo.xml".encode()}, Manifest()))
    assert capture.files["etc/nccl.conf"] == f"NCCL_TOPO_FILE={folder}user-1/topo.xml".encode()


def test_a_fact_with_quotes_stays_valid() -> None:
    lines = ['token: "hunter2"', "password = 'hunter2'", 'NCCL_NET="/scratch/kim/x"', "NCCL_ALGO=Ring"]
    fact = {"path": "/fsx/kim/nccl.conf", "lines": lines, "version": "2.28.9.1"}
    capture = redact(Capture({"facts/userconfiguration.json": json.dumps(fact).encode()}, Manifest()))
    redacted = json.loads(capture.files["facts/userconfiguration.json"])
    assert "hunter2" not in str(redacted)
    assert "kim" not in str(redacted)
    assert (redacted["lines"][-1], redacted["version"]) == ("NCCL_ALGO=Ring", "2.28.9.1")
