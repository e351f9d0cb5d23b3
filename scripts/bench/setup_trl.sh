#!/usr/bin/env bash
# An environment with Hugging Face TRL for compare.py: `setup_trl.sh [FOLDER]`, build/trl-env by default. The versions
# of torch, transformers and peft are those that the package itself is locked to, so that only the trainers differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-build/trl-env} python=${PYTHON:-python3}
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
# the CPU build where the index has it; elsewhere the default one, which computes on CPUs as well
"$folder/bin/python" -c 'import torch' 2>/dev/null ||
    "${pip[@]}" "torch==2.13.0+cpu" 2>/dev/null || "${pip[@]}" "torch==2.13.0"
"${pip[@]}" --constraint constraints.txt "trl==1.16.0" peft
"$folder/bin/python" -c 'import trl, torch; print("trl", trl.__version__, "torch", torch.__version__)'
