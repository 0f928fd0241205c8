"""Shapes of models, and their counts of parameters and floating-point operations."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

COMPUTE_FLOPS = 400e12
"""Assumed rate of a GPU. Llama 3 trained at 380 to 430 TFLOP/s per H100 in bfloat16: arXiv 2407.21783, table 4."""

Count = Annotated[int, Meta(ge=1)]
Source = Annotated[str, Meta(min_length=1)]


class Transformer(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Decoder with gated feed-forward networks, without biases, with separate input and output embeddings."""

    source: Source
    hidden: Count
    feed_forward: Count
    layers: Count
    kv_width: Count
    """Number of key-value heads times their width."""
    vocabulary: Count
    experts: Count = 1
    experts_per_token: Count = 1
    parameters: Count
    """Published total. It verifies the other numbers."""

    @property
    def qkv(self) -> int:
        """Parameters of the projections to queries, keys and values."""
        return self.hidden * (self.hidden + 2 * self.kv_width)

    @property
    def projection(self) -> int:
        """Parameters of the projection after the attention."""
        return self.hidden * self.hidden

    @property
    def expert(self) -> int:
        """Parameters of one feed-forward network: two matrices before and one after the activation."""
        return 3 * self.hidden * self.feed_forward

    @property
    def router(self) -> int:
        """Parameters that select the experts."""
        return self.hidden * self.experts if self.experts > 1 else 0

    @property
    def dense_block(self) -> int:
        """Parameters of a layer without its feed-forward networks."""
        return self.qkv + self.projection + self.router + 2 * self.hidden

    @property
    def block(self) -> int:
        """Parameters of a layer."""
        return self.dense_block + self.experts * self.expert

    @property
    def embedding(self) -> int:
        """Parameters of the input embedding; the output embedding has as many."""
        return self.vocabulary * self.hidden

    @property
    def root(self) -> int:
        """Parameters outside the layers: both embeddings and the last norm."""
        return 2 * self.embedding + self.hidden


class Batch(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Tokens of one micro-batch."""

    source: Source
    sequence: Count
    micro_batch: Count

    @property
    def tokens(self) -> int:
        """Tokens that one data-parallel rank processes per step."""
        return self.sequence * self.micro_batch


class Layout(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Distribution over ranks."""

    source: Source
    ranks: Count
    """Ranks by default."""
    group: Count = 1
    """Ranks of a tensor-parallel or expert-parallel group."""
    scalar_all_reduces: Count
    """All-reduces of one float per step, such as the norm of the gradients."""
    share_concentration: Annotated[float, Meta(gt=0)] = 1.0
    """Parameter of the Dirichlet distribution of tokens over experts: larger is more even."""


class Model(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A model with its parallel training."""

    title: str
    parallelism: Literal["fsdp", "tensor", "expert"]
    transformer: Transformer
    batch: Batch
    layout: Layout
    notes: list[str] = []
    """Sentences for users on what the model leaves out."""
    name: str = ""
    """Name of the file, set when the file is read."""

    @property
    def attention_flops(self) -> float:
        """Operations of the scores and their sums in one forward pass of a layer, causal: half of 4·s·h per token."""
        return 2.0 * self.batch.sequence * self.transformer.hidden * self.batch.tokens

    def matrix_flops(self, parameters: int) -> float:
        """Operations of a forward pass through matrices with that many parameters: two per parameter and token."""
        return 2.0 * parameters * self.batch.tokens
