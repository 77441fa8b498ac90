"""NCCL's collectives between two GPUs, in seven types and four sizes: each rank prints a digest of what it got."""
import hashlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def collective(name, x):
    if name in ("SUM", "MAX", "MIN", "PRODUCT"):
        dist.all_reduce(x, getattr(dist.ReduceOp, name))
        return x
    if name == "broadcast":
        dist.broadcast(x, 1)
        return x
    if name == "reduce":
        dist.reduce(x, 0)
        return x if dist.get_rank() == 0 else x * 0
    if name == "all_gather":
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x)
        return torch.cat(parts)
    if name == "reduce_scatter":
        out = torch.empty_like(x)
        dist.reduce_scatter_tensor(out, torch.cat([x, x + 1]))
        return out
    if name == "all_to_all":
        out = torch.cat([x, x])
        dist.all_to_all_single(out, torch.cat([x, x + 1]))
        return out
    out, other = torch.empty_like(x), 1 - dist.get_rank()
    for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, out, other)]):
        w.wait()
    return out


def work(rank, store):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=2)
    h, n = hashlib.sha256(), 0
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8):
        for size in (1, 1000, 1 << 16, 1 << 22):
            for name in ("SUM", "MAX", "MIN", "PRODUCT", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "send and receive"):
                x = ((torch.arange(size, device="cuda") * (rank + 3)) % 97).to(dtype)
                h.update(collective(name, x).contiguous().view(torch.uint8).cpu().numpy().tobytes())
                n += 1
    os.write(1, f"rank {rank}: {n} collectives {h.hexdigest()[:24]}\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, (tempfile.mkdtemp() + "/store",), nprocs=2)
