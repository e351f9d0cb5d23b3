#!/usr/bin/env bash
# Make the virtual environment: `setup.sh PYTHON FOLDER`. Called by the Makefile.
# A machine without an NVIDIA GPU gets the CPU build of torch, which is a tenth of the size.
set -euo pipefail
python=$1 venv=$2 torch=2.13.0

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "grpo_runner needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Use: make PYTHON=python3.12 ..." >&2
    exit 2
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)

if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    if command -v nvidia-smi >/dev/null || [ "$(uname -s)" != Linux ]; then
        "${pip[@]}" "torch==$torch"  # the default build: CUDA on Linux, CPU and MPS on a Mac
    else
        # the local version label names the CPU build; where the index has no such file, uv knows where it is
        echo "No NVIDIA GPU found: installing the CPU build of torch."
        "${pip[@]}" "torch==$torch+cpu" 2>/dev/null || {
            "${pip[@]}" uv
            "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --torch-backend cpu "torch==$torch"
        } || "${pip[@]}" "torch==$torch"
    fi
fi
echo "Installing the rest of what grpo_runner needs (about a minute)."
"${pip[@]}" --constraint constraints.txt --editable ".[dev]"
echo "Set-up done in $venv."
