#!/usr/bin/env bash
# Every method of the template on the embedded task: rates tuned on a seed of its own, then six paired seeds.
# Typed again it goes on where it was stopped. About half an hour on two idle cores.
#
#   bash scripts/family.sh              the six seeds at the rates of conf/experiment/family.yaml, and the page
#   bash scripts/family.sh tune         the grid that the rates were chosen from: 12 methods x 3 rates
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-.venv/bin/python}
NAME=${NAME:-family}
export PYTHONPATH=$PWD OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
SPREAD=(hydra/launcher=gpus)

if [ "${1:-}" = tune ]; then
    "$PYTHON" -m grpo_runner -m experiment=family optim.lr=3e-4,1e-3,3e-3 seed=100 \
        evaluation.every=40 evaluation.greedy=false sweep_name="${NAME}_tune" "${SPREAD[@]}"
    "$PYTHON" scripts/family_table.py "outputs/sweeps/${NAME}_tune" --rates
else
    "$PYTHON" -m grpo_runner -m experiment=family sweep_name="$NAME" "${SPREAD[@]}"
    "$PYTHON" scripts/family_table.py "outputs/sweeps/$NAME"
fi
