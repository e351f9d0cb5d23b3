"""Random draws as functions of what they are for. No generator state is kept, so nothing needs to be saved or restored.

Every draw in the package is keyed by (seed, purpose, *keys), for example (0, "rollout", step, question, sample): the
same key gives the same numbers whatever else was drawn before, in this process or another.
"""

from __future__ import annotations

import hashlib

import numpy as np


def key(seed: int, purpose: str, *keys: int | str) -> int:
    """A 128-bit integer from the key's parts (BLAKE2b of their unambiguous repr)."""
    digest = hashlib.blake2b(repr((int(seed), purpose, *keys)).encode(), digest_size=16).digest()
    return int.from_bytes(digest, "little")


def generator(seed: int, purpose: str, *keys: int | str) -> np.random.Generator:
    """A fresh counter-based generator (Philox 4x64) for one key."""
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, *keys)))
