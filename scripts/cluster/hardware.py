"""The machines that the plan is for, and what is assumed of them, each with its source. Nothing was measured here."""

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


# NVIDIA's data sheets of H100 SXM and H200 SXM, which print bf16 with sparsity (1,979 TFLOPS): twice the dense
GPUS = {
    "H100": Gpu("H100 SXM 80 GB", 80 * GB, 3.35e12, 989e12),
    "H200": Gpu("H200 SXM 141 GB", 141 * GB, 4.8e12, 989e12),
}
NVLINK = 450e9  # bytes a second each way: 900 GB/s both ways
NETWORK = 50e9  # bytes a second a GPU: 400 Gb/s
MACHINE = 8  # GPUs of a machine


@dataclass(frozen=True)
class Assumed:
    """What no data sheet says. read: share of the memory's speed that decoding reaches. mfu: share of the products'
    speed that prompts and update reach. round_s: a decoding round beyond reading and products. sum_s: a sum over a
    tensor-parallel group, whatever its size. gloo: bytes a second that a process receives of pickled answers. hop_s: a
    message between machines. disk: bytes a second of a checkpoint that is hashed, written and flushed. host: between
    a GPU and the machine's memory, where an engine's weights sleep.
    """

    read: float = 0.6
    mfu: float = 0.4
    round_s: float = 1e-3
    sum_s: float = 15e-6
    gloo: float = 1e9
    hop_s: float = 50e-6
    disk: float = 1e9
    host: float = 50e9


USUAL = Assumed()
_SHEETS = "NVIDIA's data sheets, H100 SXM and H200 SXM"
_CARDS = "a 400 Gb/s card a GPU (MLPerf inference v4.1, NVIDIA's system file of 8 H200)"
ASSUMED = (
    ("memory of a GPU", "80 and 141 GB", _SHEETS),
    ("reading of its memory", "3.35 and 4.8 TB/s", _SHEETS),
    ("bf16 products, dense", "989 TFLOPS", "the same: 1,979 with sparsity, which is twice the dense"),
    ("GPUs of a machine, NVLink", "8; 450 GB/s each way", "the same: 900 GB/s both ways"),
    ("network between machines", "50 GB/s a GPU", _CARDS),
    (
        "share of the products' speed: update, prompts",
        f"{100 * USUAL.mfu:.0f} %",
        "Llama 3 (arXiv 2407.21783): 38 to 43 % on 8,192 to 16,384 H100",
    ),
    (
        "share of the memory's speed: decoding",
        f"{100 * USUAL.read:.0f} %",
        "our choice; 60 to 85 % is what is told of tuned engines",
    ),
    (
        "a decoding round beyond that",
        f"{1e3 * USUAL.round_s:g} ms",
        "our choice: drawing, scheduling, launches",
    ),
    ("a sum over the GPUs of a replica", f"{1e6 * USUAL.sum_s:g} µs, two a layer", "our choice"),
    (
        "answers, exchanged by gloo",
        f"{USUAL.gloo / GB:g} GB/s into a process; {1e6 * USUAL.hop_s:g} µs a message",
        "our choice: TCP, eight processes behind a machine's cards",
    ),
    ("a checkpoint", f"{USUAL.disk / GB:g} GB/s", "our choice: hashed, written and flushed, by rank 0"),
    ("weights that sleep, each way", f"{USUAL.host / GB:g} GB/s", "PCIe 5.0 × 16 has 64 GB/s; our choice of its share"),
)
