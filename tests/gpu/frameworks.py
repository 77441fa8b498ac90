"""One computation on the GPU with one framework; prints what it was and a digest of the result.

    frameworks.py torch-matmul|torch-conv|torch-compile|triton|nccl|jax|cupy

Exit status 0: it ran on the GPU and agrees with the CPU. 3: the framework is not installed. 1: anything else.
"""
import hashlib
import os
import sys
import tempfile


def line(name, version, result):
    digest = hashlib.sha256(result.tobytes()).hexdigest()[:16]
    print(f"{name} {version} digest={digest}")


def torch_setup():
    import torch

    assert torch.cuda.is_available(), "torch.cuda.is_available() is False"
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    return torch


def torch_matmul():
    torch = torch_setup()
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    c = (a.cuda() @ b.cuda()).cpu()
    assert torch.allclose(c, a @ b, atol=1e-3)
    line("cublas matmul", torch.__version__, c.numpy())


def torch_conv():
    torch = torch_setup()
    x, w = torch.randn(4, 8, 32, 32), torch.randn(16, 8, 3, 3)
    y = torch.nn.functional.conv2d(x.cuda(), w.cuda(), padding=1).cpu()
    assert torch.allclose(y, torch.nn.functional.conv2d(x, w, padding=1), atol=1e-3)
    line("cudnn %d convolution" % torch.backends.cudnn.version(), torch.__version__, y.numpy())


def torch_compile():
    torch = torch_setup()
    x = torch.randn(1 << 16)
    f = lambda v: torch.sin(v) * 2 + torch.exp(-v * v)
    y = torch.compile(f)(x.cuda()).cpu()
    assert torch.allclose(y, f(x), atol=1e-5)
    line("torch.compile (Triton, ptxas)", torch.__version__, y.numpy())


def nvrtc():
    torch = torch_setup()
    x = torch.randn(1 << 12)
    y = torch.special.entr(x.abs().cuda()).cpu()  # compiled by NVRTC when first called
    z = torch.special.bessel_j0(x.cuda()).cpu()
    assert torch.allclose(y, torch.special.entr(x.abs()), atol=1e-5)
    line("nvrtc (jiterator)", torch.__version__, torch.cat([y, z]).numpy())


def nccl():
    torch = torch_setup()
    import torch.distributed as dist

    with tempfile.TemporaryDirectory() as d:
        dist.init_process_group("nccl", init_method=f"file://{d}/store", rank=0, world_size=1)
        x = torch.arange(1024, dtype=torch.float32, device="cuda")
        dist.all_reduce(x)
        torch.cuda.synchronize()
        dist.destroy_process_group()
    version = ".".join(map(str, torch.cuda.nccl.version()))
    line(f"nccl {version} all_reduce", torch.__version__, x.cpu().numpy())


def jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["JAX_PLATFORMS"] = "cuda"
    os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    import jax
    import numpy as np

    jax.config.update("jax_default_matmul_precision", "highest")
    a = np.random.default_rng(1).standard_normal((256, 256), dtype=np.float32)
    b = np.asarray(jax.jit(lambda v: v @ v.T)(a))
    assert np.allclose(b, a @ a.T, atol=1e-2)
    line(f"jax on {jax.devices()[0].device_kind}", jax.__version__, b)


def cupy():
    import cupy
    import numpy as np

    kernel = cupy.RawKernel(  # compiled by NVRTC
        'extern "C" __global__ void f(const float *x, float *y) { int i = threadIdx.x; y[i] = x[i] * 3.0f; }', "f"
    )
    x = cupy.arange(256, dtype=cupy.float32)
    y = cupy.empty_like(x)
    kernel((1,), (256,), (x, y))
    a = cupy.arange(64 * 64, dtype=cupy.float32).reshape(64, 64) / 64
    result = np.concatenate([cupy.asnumpy(y), cupy.asnumpy(a @ a).ravel()])
    assert np.allclose(result[:256], 3 * np.arange(256))
    line("cupy (nvrtc, cublas)", cupy.__version__, result)


if __name__ == "__main__":
    case = sys.argv[1]
    try:
        globals()[case.replace("-", "_")]()
    except ModuleNotFoundError as e:
        print(f"{case}: {e}")
        sys.exit(3)
