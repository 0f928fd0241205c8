"""A training job of PyTorch: data parallelism in buckets, gathered parameters, and an uneven exchange of tokens.

Usage: torchrun --nproc-per-node N train.py STEPS LATE_US    # the last rank sleeps LATE_US in each step
"""

import os
import sys
import time

import torch
import torch.distributed as dist

STEPS, LATE_US = map(int, sys.argv[1:])

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
tensor_group = dist.new_group(list(range(size)))
layers = [torch.nn.Linear(2048, 2048) for _ in range(8)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), bucket_cap_mb=16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(1024, 2048, device="cuda")
shard = torch.randn(1 << 20, device="cuda", dtype=torch.bfloat16)
full = torch.empty(size << 20, device="cuda", dtype=torch.bfloat16)
splits = [300_000 + 100_000 * ((rank + peer) % 2) for peer in range(size)]
tokens = torch.randn(sum(splits), device="cuda")
norm = torch.ones(1, device="cuda")
for _ in range(STEPS):
    if rank == size - 1:
        time.sleep(LATE_US * 1e-6)
    for _ in range(4):
        dist.all_gather_into_tensor(full, shard, group=tensor_group)
        dist.reduce_scatter_tensor(shard, full, group=tensor_group)
    dist.all_to_all_single(torch.empty_like(tokens), tokens, splits, splits, group=tensor_group)
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(norm)
    torch.cuda.synchronize()
dist.destroy_process_group()
