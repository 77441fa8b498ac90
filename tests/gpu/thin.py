"""Programs on the GPU, for thin-check: each prints its name and a digest of what it computed.

    thin.py torch|more|lt|jax|cupy|nccl [NAME...]    only those whose names begin so
"""
import atexit
import hashlib
import os
import resource
import shutil
import sys
import tempfile
import time

# torch.compile chooses between kernels by timing them, and sums come out in another order: a run compiles for itself, without.
os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
compiled = tempfile.mkdtemp()
atexit.register(shutil.rmtree, compiled, ignore_errors=True)
os.environ.update(TORCHINDUCTOR_CACHE_DIR=compiled + "/inductor", TRITON_CACHE_DIR=compiled + "/triton")


def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        if hasattr(a, "detach"):
            import torch
            a = a.detach().contiguous().cpu()
            a = a.view(torch.uint8).numpy() if a.dim() and a.dtype != torch.bool else a.reshape(1).numpy() if a.dtype not in (torch.bfloat16,) else a.float().numpy()
        h.update(bytes(memoryview(a).cast("B")) if hasattr(a, "__array_interface__") and a.size else repr(a).encode())
    return h.hexdigest()[:16]


def run(programs):
    for f in programs:
        if sys.argv[2:] and not f.__name__.startswith(tuple(sys.argv[2:])):
            continue
        began = time.time()
        try:
            said = f()
        except Exception as e:  # what a GPU without code says is told like any result
            said = f"{type(e).__name__}: {str(e).splitlines()[0][:120]}"
        print(f.__name__, said, flush=True)
        print(f"# {f.__name__} {time.time() - began:.1f} s", file=sys.stderr, flush=True)


def torch_programs():
    started = time.time()
    import torch
    import torch.nn.functional as F
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = False
    d = "cuda"
    torch.zeros(1, device=d).add_(1).item()
    print(f"# import and first kernel {time.time() - started:.2f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB", file=sys.stderr)

    def rand(*shape, dtype=torch.float32):
        g = torch.Generator().manual_seed(sum(shape))
        return torch.randn(*shape, generator=g).to(d, dtype)

    all = []

    def program(f):
        all.append(f)
        return f

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        def matmul(dtype=dtype):
            return digest(*[rand(n, k, dtype=dtype) @ rand(k, m, dtype=dtype) for n, k, m in ((64, 64, 64), (257, 129, 511), (2048, 1024, 512), (1, 4096, 4096))])
        matmul.__name__ = f"matmul_{dtype}"
        program(matmul)

    @program
    def int8(): return digest(torch._int_mm(rand(128, 128).to(torch.int8), rand(128, 128).to(torch.int8)))

    @program
    def fp8():
        a, b = rand(256, 256).to(torch.float8_e4m3fn), rand(256, 256).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=d)
        return digest(torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16).float())

    @program
    def addmm_gelu(): return digest(torch._addmm_activation(rand(512), rand(256, 384, dtype=torch.float32), rand(384, 512), use_gelu=True))

    @program
    def shapes():
        h = hashlib.sha256()
        for i in range(300):
            n, k, m = 8 + i * 7 % 500, 16 + i * 13 % 700, 8 + i * 29 % 600
            for dtype in (torch.float16, torch.float32):
                h.update(digest((rand(n, k, dtype=dtype) @ rand(k, m, dtype=dtype)).float()).encode())
        return h.hexdigest()[:16]

    for dtype in (torch.float16, torch.float32):
        def conv(dtype=dtype):
            return digest(F.conv2d(rand(4, 16, 64, 64, dtype=dtype), rand(32, 16, 3, 3, dtype=dtype)), F.conv2d(rand(2, 8, 33, 33, dtype=dtype), rand(8, 8, 5, 5, dtype=dtype), stride=2),
                          F.conv3d(rand(1, 4, 16, 16, 16, dtype=dtype), rand(8, 4, 3, 3, 3, dtype=dtype)), F.conv_transpose2d(rand(2, 8, 16, 16, dtype=dtype), rand(8, 4, 3, 3, dtype=dtype)),
                          F.conv2d(rand(2, 32, 32, 32, dtype=dtype), rand(32, 1, 3, 3, dtype=dtype), groups=32))
        conv.__name__ = f"conv_{dtype}"
        program(conv)

    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION):
        def attention(backend=backend):
            with sdpa_kernel(backend):
                return digest(*[F.scaled_dot_product_attention(*[rand(2, 4, 128 + i, s, dtype=torch.float16) for i in (0, 0, 0)], is_causal=causal).float() for s in (32, 64, 128) for causal in (False, True)])
        attention.__name__ = f"attention_{backend.name}"
        program(attention)

    @program
    def fft(): return digest(*[torch.view_as_real(torch.fft.fft(rand(8, n))) for n in (7, 64, 100, 1000, 4096, 17 * 19, 65536)], torch.view_as_real(torch.fft.rfft2(rand(4, 60, 90))), torch.fft.irfft(torch.fft.rfft(rand(16, 1024))))

    @program
    def solvers():
        a = rand(64, 64)
        s = a @ a.T + 64 * torch.eye(64, device=d)
        return digest(torch.linalg.cholesky(s), torch.linalg.solve(s, rand(64, 8)), torch.linalg.inv(s), torch.linalg.eigvalsh(s), torch.linalg.svdvals(a), torch.linalg.qr(a).R, torch.linalg.lu_factor(s).LU)

    @program
    def batched(): return digest(torch.linalg.inv(rand(50, 16, 16)), torch.linalg.eigvalsh(rand(20, 12, 12) @ rand(20, 12, 12).mT.contiguous() * 0 + torch.eye(12, device=d)), torch.bmm(rand(30, 17, 33), rand(30, 33, 9)))

    @program
    def sparse():
        m = rand(200, 200) * (rand(200, 200) > 1)
        return digest(m.to_sparse_csr() @ rand(200, 50), torch.sparse.mm(m.to_sparse_coo(), rand(200, 50)))

    @program
    def recurrent():
        torch.manual_seed(1)
        out = []
        for make in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
            net = make(32, 64, 2).to(d)
            out.append(net(rand(20, 4, 32))[0])
        return digest(*out)

    @program
    def losses(): return digest(F.ctc_loss(rand(50, 4, 20).log_softmax(2), torch.randint(1, 20, (4, 10), generator=torch.Generator().manual_seed(1)).to(d), torch.full((4,), 50), torch.full((4,), 10)), F.cross_entropy(rand(64, 100), torch.arange(64, device=d)))

    @program
    def reductions(): return digest(rand(1000, 257).sum(0), rand(1000, 257).cumsum(1), rand(10000).sort().values, rand(4, 10000).topk(50).values, rand(300).unique(), rand(100, 100).softmax(1), rand(100).var(), rand(512, 512).argmax(1).int())

    @program
    def training():
        torch.manual_seed(2)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(8 * 14 * 14, 10)).to(d)
        o = torch.optim.AdamW(net.parameters(), lr=1e-3)
        for _ in range(3):
            o.zero_grad()
            F.cross_entropy(net(rand(8, 3, 16, 16)), torch.arange(8, device=d)).backward()
            o.step()
        return f"{sum(p.double().sum().item() for p in net.parameters()):.3f}"

    @program
    def graph():
        x = rand(256, 256)
        y = x @ x
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            y = (x @ x).relu().sum(0)
        g.replay()
        return digest(y)

    @program
    def compiled(): return digest(torch.compile(lambda x: (x.sin() + x.cos() ** 2).softmax(1))(rand(300, 300)))

    @program
    def vision():
        import torchvision
        boxes = rand(200, 2).abs()
        boxes = torch.cat([boxes, boxes + 1], 1)
        return digest(torchvision.ops.nms(boxes, rand(200), 0.5).int(), torchvision.ops.roi_align(rand(1, 4, 32, 32), [boxes[:10] * 4], 5))

    @program
    def audio():
        import torchaudio
        return digest(torchaudio.functional.rnnt_loss(rand(1, 10, 6, 12), torch.ones(1, 5, dtype=torch.int32, device=d), torch.tensor([10], dtype=torch.int32, device=d), torch.tensor([5], dtype=torch.int32, device=d)))

    @program
    def images(): return digest(F.interpolate(rand(1, 3, 50, 50), scale_factor=2.3, mode="bicubic"), F.grid_sample(rand(1, 3, 20, 20), rand(1, 9, 9, 2).tanh()), F.max_pool2d(rand(1, 4, 40, 40), 3))

    @program
    def random_numbers():
        g = torch.Generator(d).manual_seed(5)
        return digest(torch.randn(1000, device=d, generator=g), torch.rand(1000, device=d, generator=g), torch.randperm(1000, device=d, generator=g).int())

    run(all)


def more_programs():
    import torch
    import torch.nn.functional as F
    d = "cuda"

    def rand(*shape, dtype=torch.float32):
        g = torch.Generator().manual_seed(sum(shape))
        return torch.randn(*shape, generator=g).to(d, dtype)

    def model(make):
        """What a model of random weights says, and its gradients."""
        torch.manual_seed(3)
        net, inputs = make()
        out = net.to(d).eval()(*[i.to(d) for i in inputs])
        out = next(iter(out.values())) if isinstance(out, dict) else out
        out.float().sum().backward()
        return digest(out, *[p.grad for p in list(net.parameters())[:3] if p.grad is not None])

    all = []

    def program(f):
        all.append(f)
        return f

    ids = torch.arange(64).reshape(2, 32)
    for name, small in (("Bert", {}), ("GPT2", {}), ("Llama", {"intermediate_size": 128, "num_key_value_heads": 2}), ("T5Encoder", {}), ("ViT", {"image_size": 32, "patch_size": 8})):
        def transformer(name=name, small=small):
            import transformers as t
            c = {"T5Encoder": t.T5Config}.get(name) or getattr(t, name + "Config")
            keys = {"GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4}, "T5Encoder": {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16, "d_ff": 128}}.get(name, {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4})
            made = getattr(t, name + "Model")
            return model(lambda: (made(c(**keys, **small)), [rand(2, 3, 32, 32) if name == "ViT" else ids]))
        transformer.__name__ = f"transformer_{name}"
        program(transformer)

    for name in ("resnet18", "mobilenet_v3_small", "convnext_tiny", "swin_t"):
        def vision(name=name):
            import torchvision
            return model(lambda: (getattr(torchvision.models, name)(), [rand(2, 3, 64, 64)]))
        vision.__name__ = f"vision_{name}"
        program(vision)

    @program
    def speech():
        import torchaudio
        return model(lambda: (torch.nn.Sequential(torchaudio.transforms.MelSpectrogram(n_mels=32), torch.nn.Conv1d(32, 8, 3)), [rand(2, 8000)]))

    @program
    def unet():
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.n = torch.nn.Conv2d(4, 32, 3, padding=1), torch.nn.ConvTranspose2d(32, 4, 4, 2, 1), torch.nn.GroupNorm(8, 32)
                self.m = torch.nn.MultiheadAttention(32, 4, batch_first=True)

            def forward(self, x):
                y = F.silu(self.n(F.avg_pool2d(self.a(x), 2)))
                z = y.flatten(2).mT
                y = y + self.m(z, z, z)[0].mT.reshape(y.shape)
                return x + self.b(y)
        return model(lambda: (Block(), [rand(2, 4, 32, 32)]))

    def kernels(work):
        """The names of the kernels that it starts, in their order."""
        work()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            work()
            torch.cuda.synchronize()
        names = [e.name for e in sorted((e for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)]
        return f"{len(names)} {len(set(names))} {hashlib.sha256(repr(names).encode()).hexdigest()[:16]}"

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.int8):
        def choices(dtype=dtype):
            def work():
                for i in range(340):
                    n, k, m = 16 * (1 + i % 17), 16 * (1 + i * 7 % 41), 16 * (1 + i * 3 % 29)
                    if dtype == torch.int8:
                        torch._int_mm(torch.ones(n + 32, k, dtype=dtype, device=d), torch.ones(m, k, dtype=dtype, device=d).t())
                    else:
                        torch.ones(n + i % 3, k, dtype=dtype, device=d) @ torch.ones(k, m, dtype=dtype, device=d)
            return kernels(work)
        choices.__name__ = f"kernels_chosen_{dtype}"
        program(choices)

    @program
    def kernels_chosen_convolutions():
        def work():
            for dtype in (torch.float16, torch.float32, torch.bfloat16):
                for size, stride, groups in ((1, 1, 1), (3, 1, 1), (5, 2, 1), (7, 2, 1), (3, 1, 16), (3, 2, 4)):
                    x, w = torch.ones(4, 16, 40, 40, dtype=dtype, device=d, requires_grad=True), torch.ones(32, 16 // groups, size, size, dtype=dtype, device=d, requires_grad=True)
                    F.conv2d(x, w, stride=stride, groups=groups).sum().backward()
        return kernels(work)

    @program
    def convolutions_tried():
        torch.backends.cudnn.benchmark = True
        out = [F.conv2d(rand(8, 32, n, n, dtype=dtype), rand(64, 32, 3, 3, dtype=dtype)).float().mean().item() for n in (15, 32, 57) for dtype in (torch.float16, torch.float32)]
        torch.backends.cudnn.benchmark = False
        return [round(v, 3) for v in out]

    @program
    def fft_sizes():
        h = hashlib.sha256()
        for n in [*range(1, 300), *range(500, 4000, 173), 1 << 18, 3 ** 10, 7 ** 5, 10007]:
            for dtype in (torch.complex64, torch.complex128):
                h.update(digest(torch.view_as_real(torch.fft.fft(rand(3, n).to(dtype)))).encode())
        return h.hexdigest()[:16]

    @program
    def attention_gradients():
        out = []
        for heads in (32, 64, 96, 128):
            q, k, v = [rand(1, 4, 200, heads, dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
            F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().backward()
            out += [round(t.grad.float().abs().mean().item(), 4) for t in (q, k, v)]
        return digest(*out)

    @program
    def recurrent_half(): return model(lambda: (torch.nn.GRUCell(32, 64).half(), [rand(20, 32, dtype=torch.float16)]))

    @program
    def many_operations():
        x = rand(64, 64).abs() + 0.1
        out = [f(x) for f in (torch.erf, torch.lgamma, torch.digamma, torch.special.i0, torch.log1p, torch.expm1, torch.atan, torch.rsqrt, torch.trunc, torch.frac, torch.sigmoid)]
        out += [x.cumsum(0), x.flip(0), x.roll(3), x.tril(), x.kthvalue(5).values, x.median(0).values, x.half().sort().values, torch.histc(x, 10), x.to(torch.int32).bitwise_xor(3), torch.searchsorted(x.sort().values, x),
                torch.nn.functional.embedding(torch.arange(10, device=d), x), x.unfold(0, 5, 2), torch.cdist(x, x), x.index_select(0, torch.arange(0, 64, 3, device=d)), x.masked_select(x > 1), x.double().logsumexp(1)]
        return digest(*[o.contiguous() for o in out])

    @program
    def triton_kernel():
        f = torch.compile(lambda a, b: (a @ b).relu().sum(1) + a.exp().mean(1), dynamic=False)
        return digest(f(rand(128, 128), rand(128, 128)))

    run(all)


def lt_programs():
    """What loads code by its own means: cuSPARSELt, cuBLASLt in 8 bits, and all engines that cuDNN proposes."""
    import torch
    import torch.nn.functional as F
    d = "cuda"

    def rand(*shape, dtype=torch.float32):
        g = torch.Generator().manual_seed(sum(shape))
        return torch.randn(*shape, generator=g).to(d).to(dtype)

    all = []

    def program(f):
        all.append(f)
        return f

    def ran(work):
        """The names of the kernels that ran, each once, and their digest."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            work()
            torch.cuda.synchronize()
        names = sorted({e.name for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA})
        return f"{len(names)} {hashlib.sha256(repr(names).encode()).hexdigest()[:16]}"

    @program
    def semi_structured():
        from torch.sparse import to_sparse_semi_structured
        a = torch.tensor([0, 0, 1, 1], device=d).tile(128, 32).half()
        return digest(F.linear(rand(128, 128, dtype=torch.float16), to_sparse_semi_structured(a)).float())

    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn):
        def cslt(dtype=dtype):
            out = []
            for n, k, m in ((128, 128, 64), (256, 512, 128), (1024, 256, 320)):
                a = (rand(n, k) * torch.tensor([0, 0, 1, 1], device=d).tile(n, k // 4) * 4).to(dtype)
                b = (rand(m, k) * 4).to(dtype).t()
                more = {"out_dtype": torch.bfloat16} if dtype == torch.float8_e4m3fn else {}
                packed = torch._cslt_compress(a)
                out.append(torch._cslt_sparse_mm(packed, b, **more).float())
            return digest(*out)
        cslt.__name__ = f"cslt_{dtype}"
        program(cslt)

    sizes = [(16 * (1 + i % 23), 16 * (1 + i * 7 % 41), 16 * (1 + i * 3 % 29)) for i in range(150)] + [(2048, 2048, 2048), (4096, 512, 1024)]
    for name, left, right, out_dtype in (("e4m3", torch.float8_e4m3fn, torch.float8_e4m3fn, torch.bfloat16), ("e4m3_e5m2", torch.float8_e4m3fn, torch.float8_e5m2, torch.float16),
                                         ("e5m2_e4m3", torch.float8_e5m2, torch.float8_e4m3fn, torch.float32)):
        def fp8(left=left, right=right, out_dtype=out_dtype):
            one, h = torch.ones((), device=d), hashlib.sha256()

            def work():
                for n, k, m in sizes:
                    for fast in (False, True):
                        h.update(digest(torch._scaled_mm(rand(n, k, dtype=left), rand(m, k, dtype=right).t(), scale_a=one, scale_b=one, out_dtype=out_dtype, use_fast_accum=fast).float()).encode())
            return f"{ran(work)} {h.hexdigest()[:16]}"
        fp8.__name__ = f"fp8_{name}"
        program(fp8)

    @program
    def int8():
        h = hashlib.sha256()

        def work():
            for n, k, m in sizes:
                h.update(digest(torch._int_mm((rand(n + 32, k) * 9).to(torch.int8), (rand(m, k) * 9).to(torch.int8).t())).encode())
        return f"{ran(work)} {h.hexdigest()[:16]}"

    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        def engines_tried(dtype=dtype):
            def work():
                for size, stride, groups in ((1, 1, 1), (3, 1, 1), (5, 2, 1), (3, 2, 4)):
                    x, w = torch.ones(4, 32, 28, 28, dtype=dtype, device=d, requires_grad=True), torch.ones(64, 32 // groups, size, size, dtype=dtype, device=d, requires_grad=True)
                    for layout in (torch.contiguous_format, torch.channels_last):
                        F.conv2d(x.to(memory_format=layout), w.to(memory_format=layout), stride=stride, groups=groups).sum().backward()
                F.conv3d(torch.ones(1, 8, 12, 12, 12, dtype=dtype, device=d), torch.ones(16, 8, 3, 3, 3, dtype=dtype, device=d))
            torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 0
            try:
                return ran(work)
            finally:
                torch.backends.cudnn.benchmark = False
        engines_tried.__name__ = f"engines_tried_{dtype}"
        program(engines_tried)

    @program
    def graphed_training():
        torch.manual_seed(4)
        net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 16)).to(d)
        x = rand(32, 64)
        graphed = torch.cuda.make_graphed_callables(net, (x,))
        for _ in range(3):
            graphed(x).square().sum().backward()
        return digest(*[p.grad for p in net.parameters()])

    run(all)


def jax_programs():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp
    import numpy as np
    x = jax.random.normal(jax.random.key(1), (256, 256))

    def d(*a): return digest(*[np.ascontiguousarray(np.asarray(v)).view(np.uint8) for v in a])
    def matmul(): return d(jnp.dot(x, x), jax.jit(lambda v: jnp.tanh(v) @ v.T)(x))
    def conv(): return d(jax.lax.conv(x.reshape(1, 4, 128, 128), jnp.ones((2, 4, 3, 3)), (1, 1), "SAME"))
    def fft(): return d(jnp.fft.fft2(x))
    def solvers(): return d(jnp.linalg.cholesky(x @ x.T + 300 * jnp.eye(256)), jnp.linalg.qr(x)[1], jnp.linalg.svd(x[:32, :32])[1])
    def sort(): return d(jnp.sort(x, 1), jnp.cumsum(x, 0), jax.grad(lambda v: (v ** 3).sum())(x))

    def attention():
        q = jax.random.normal(jax.random.key(2), (2, 128, 4, 64), jnp.bfloat16)
        return d(jax.nn.dot_product_attention(q, q, q, implementation="cudnn").astype(jnp.float32))

    def numba():
        if not hasattr(np, "row_stack"):  # numba 0.68 asks for it, and NumPy 2.5 has none
            np.row_stack = np.vstack
        from numba import cuda

        @cuda.jit
        def k(a, b):
            i = cuda.grid(1)
            if i < a.size:
                cuda.atomic.add(b, i % 7, a[i] * 2)
        b = cuda.to_device(np.zeros(7, np.int32))
        k[8, 64](cuda.to_device(np.arange(500, dtype=np.int32)), b)
        return d(b.copy_to_host())
    run([matmul, conv, fft, solvers, sort, attention, numba])


def cupy_programs():
    import cupy as cp
    import numpy as np
    x = cp.asarray(np.random.default_rng(1).standard_normal((200, 200)).astype(np.float32))

    def d(*a): return digest(*[np.ascontiguousarray(cp.asnumpy(v)).view(np.uint8) for v in a])
    def matmul(): return d(x @ x, x.astype(cp.float64) @ x)
    def fft(): return d(cp.fft.fft(x), cp.fft.rfft2(x))
    def nvrtc(): return d(cp.RawKernel('extern "C" __global__ void k(float *x) { x[threadIdx.x] += 2; }', "k")((1,), (32,), (x,)) or x[:1])
    def sort(): return d(cp.sort(x, 1), cp.cumsum(x), x.argsort(1))
    def random(): return d(cp.random.RandomState(3).standard_normal(1000), cp.random.default_rng(3).random(1000))
    def solvers(): return d(cp.linalg.solve(x @ x.T + 300 * cp.eye(200, dtype=cp.float32), x), cp.linalg.svd(x[:32, :32])[1])

    def sparse():
        import cupyx.scipy.sparse as s
        return d(s.csr_matrix(x * (x > 1)) @ x)
    run([matmul, fft, nvrtc, sort, random, solvers, sparse])


def nccl_programs():
    import torch
    import torch.distributed as dist
    import tempfile
    where = tempfile.mkdtemp()
    dist.init_process_group("nccl", init_method=f"file://{where}/store", rank=0, world_size=1)

    def collectives():
        out = []
        for dtype in (torch.float16, torch.float32, torch.float64, torch.int32, torch.bfloat16):
            for n in (1, 1000, 1 << 20):
                x = torch.arange(n, device="cuda").to(dtype)
                dist.all_reduce(x)
                dist.broadcast(x, 0)
                out.append(x.float())
        return digest(*out)
    run([collectives])
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1] + "_programs"]()
