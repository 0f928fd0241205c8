"""Shape of a model, with its counts of parameters and floating-point operations."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1)]


class Model(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A decoder with gated feed-forward networks and separate embeddings, without biases, and its parallel training."""

    title: str
    sources: Annotated[list[str], Meta(min_length=1)]
    notes: list[str] = []
    """Sentences for users on choices that no source states."""
    parallelism: Literal["fsdp", "tensor", "expert"]
    ranks: Count
    """Ranks by default."""
    group: Count = 1
    """Ranks of a tensor-parallel or expert-parallel group."""
    hidden: Count
    feed_forward: Count
    layers: Count
    kv_width: Count
    """Number of key-value heads times their width."""
    vocabulary: Count
    experts: Count = 1
    experts_per_token: Count = 1
    share_concentration: Annotated[float, Meta(gt=0)] = 1.0
    """Parameter of the Dirichlet distribution of tokens over experts: larger is more even."""
    parameters: Count
    """Published total. A test compares it with the parameters that follow from the other numbers."""
    sequence: Count
    """Tokens of one data-parallel rank per step: one sequence."""
    scalar_all_reduces: Count
    """All-reduces of one float per step, such as the norm of the gradients."""
    name: str = ""
    """Name of the file, set when the file is read."""

    @property
    def dense_parameters(self) -> dict[str, int]:
        """Parameters of a layer outside its feed-forward networks, by part. "norm" is the size of one of two norms."""
        return {
            "norm": self.hidden,
            "qkv": self.hidden * (self.hidden + 2 * self.kv_width),
            "projection": self.hidden * self.hidden,
            "router": self.hidden * self.experts if self.experts > 1 else 0,
        }

    @property
    def feed_forward_parameters(self) -> tuple[int, int]:
        """Parameters of one feed-forward network, which is one expert: before and after the activation."""
        return 2 * self.hidden * self.feed_forward, self.hidden * self.feed_forward

    @property
    def block_parameters(self) -> int:
        """Parameters of a layer."""
        second_norm = self.dense_parameters["norm"]
        return sum(self.dense_parameters.values()) + second_norm + self.experts * sum(self.feed_forward_parameters)

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding. The output embedding has the same number."""
        return self.vocabulary * self.hidden

    @property
    def root_parameters(self) -> int:
        """Parameters outside the layers: both embeddings and the last norm."""
        return 2 * self.embedding_parameters + self.hidden

    @property
    def score_flops(self) -> float:
        """Floating-point operations of the attention scores of a layer in the forward pass.

        A token takes 4 x `sequence` x `hidden` operations without the causal mask, and half of them with it.
        """
        flops_per_token = 2.0 * self.sequence * self.hidden
        return flops_per_token * self.sequence

    def matrix_flops(self, parameters: float) -> float:
        """Floating-point operations of a forward pass through matrices: two per parameter and token."""
        return 2.0 * parameters * self.sequence
