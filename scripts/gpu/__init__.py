"""The parts of `scripts/gpu_check.py`, and the sizes of the models that it makes."""
