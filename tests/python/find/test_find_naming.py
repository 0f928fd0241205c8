"""Texts of parts, also of parts from records in which fields are missing."""

import pytest

from busbw.find.naming import NamedPart


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (NamedPart(kind="gpu", node="n0", gpu=3), "GPU 3 of n0"),
        (NamedPart(kind="nvlink", node="n0", gpus=(3,)), "NVLinks of GPU 3 of n0"),
        (NamedPart(kind="nvlink", node="n0", gpus=(1, 2)), "NVLink of GPUs 1 and 2 of n0"),
        (NamedPart(kind="nvlink", node="n0", gpus=(1, 2, 3)), "NVLink of GPUs 1 and 2 and 3 of n0"),
        (NamedPart(kind="nic", node="n0", nic="mlx5_3", gpu=3), "NIC mlx5_3 of n0 (GPU 3)"),
        (NamedPart(kind="nic", node="n0", nic="mlx5_3", gpus=(3,), rail=3), "NIC mlx5_3 of n0 (GPU 3, rail 3)"),
        (
            NamedPart(kind="nic", node="n0", nic="mlx5_3", gpus=(2, 3), direction="send"),
            "NIC mlx5_3 of n0 (GPUs 2, 3), sending only",
        ),
        (NamedPart(kind="pair", nodes=("n0", "n1"), direction="both"), "network between n0 and n1"),
        (NamedPart(kind="pair", nodes=("n0", "n1"), direction="send"), "network from n0 to n1"),
        (NamedPart(kind="uplink", leaf="a", direction="receive"), "uplinks of leaf a, receiving only"),
    ],
)
def test_the_text_names_the_part(part: NamedPart, text: str) -> None:
    assert part.text == text


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (NamedPart(kind="nvlink", node="n0"), "NVLink of GPUs  of n0"),
        (NamedPart(kind="nic", node="n0", nic="mlx5_3"), "NIC mlx5_3 of n0 (GPUs )"),
        (NamedPart(kind="pair"), "network between  and "),
    ],
)
def test_a_part_of_a_record_without_gpus_or_nodes_has_a_text(part: NamedPart, text: str) -> None:
    assert part.text == text
