"""The machines that the plan is for, and what is assumed of them. Every figure has its source; none was measured here."""

from __future__ import annotations

from dataclasses import dataclass

GB = 10**9


@dataclass(frozen=True)
class Gpu:
    """memory: bytes. read: bytes a second of its memory. flops: of bf16 products, dense, a second."""

    name: str
    memory: int
    read: float
    flops: float


# NVIDIA's data sheets of H100 SXM and H200 SXM; theirs print bf16 with sparsity (1,979 TFLOPS), which is twice the dense
GPUS = {
    "H100": Gpu("H100 SXM 80 GB", 80 * GB, 3.35e12, 989e12),
    "H200": Gpu("H200 SXM 141 GB", 141 * GB, 4.8e12, 989e12),
}
# (what, value, unit as printed, source)
NVLINK = 450e9  # bytes a second each way: 900 GB/s both ways
NETWORK = 50e9  # bytes a second a GPU: 400 Gb/s
MACHINE = 8  # GPUs of a machine
READ = 0.6  # share of the memory's speed that decoding reaches
MFU = 0.4  # share of the products' speed that the update and prompts reach
ROUND = 1e-3  # seconds of a decoding round beyond reading and products
MEETING = 15e-6  # seconds of a sum within a tensor-parallel machine, whatever its size
GLOO = 1e9  # bytes a second that a process receives of pickled answers
DISK = 1e9  # bytes a second of a checkpoint: hashed, written, flushed

ASSUMED = (
    ("memory of a GPU", "80 and 141 GB", "NVIDIA's data sheets, H100 SXM and H200 SXM"),
    ("reading of its memory", "3.35 and 4.8 TB/s", "the same"),
    ("bf16 products, dense", "989 TFLOPS", "the same: 1,979 with sparsity, which is twice the dense"),
    ("GPUs of a machine, NVLink", "8; 450 GB/s each way", "the same: 900 GB/s both ways"),
    ("network between machines", "50 GB/s a GPU", "a 400 Gb/s card a GPU, as in DGX H100 (MLPerf inference v4.1, system file of the H200 machine)"),
    ("share of the products' speed, update and prompts", f"{MFU:.0%}", "Llama 3 (arXiv 2407.21783): 38 to 43 % on 8,192 to 16,384 H100"),
    ("share of the memory's speed, decoding", f"{READ:.0%}", "our choice; 60 to 85 % is told of tuned engines"),
    ("a decoding round beyond that", f"{1e3 * ROUND:g} ms", "our choice: sampling, scheduling, launches"),
    ("a sum over a tensor-parallel group", f"{1e6 * MEETING:g} µs, two a layer", "our choice"),
    ("answers exchanged by gloo", f"{GLOO / 1e9:g} GB/s into a process", "our choice: TCP, eight processes on a machine's cards"),
    ("a checkpoint", f"{DISK / 1e9:g} GB/s", "our choice: hashed, written and flushed by rank 0"),
)  # fmt: skip
