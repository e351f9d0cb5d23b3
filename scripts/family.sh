#!/usr/bin/env bash
# Every method of the template on the embedded task: rates tuned on a seed of its own, then seven paired seeds, with equal
# steps and with equal time. Typed again it goes on where it was stopped.
#
#   bash scripts/family.sh              the seven seeds at the rates of conf/experiment/family.yaml, and the tables
#   bash scripts/family.sh time         the same with the steps of conf/experiment/family_time.yaml: equally long
#   bash scripts/family.sh tune         the grid that the rates were chosen from: 12 methods x 3 rates
#   bash scripts/family.sh seconds      what a step of each takes, and the steps that follow (one run at a time)
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
elif [ "${1:-}" = seconds ]; then
    "$PYTHON" -m grpo_runner -m experiment=family seed=100,101,102 evaluation.every=0 sweep_name="${NAME}_seconds"
    "$PYTHON" scripts/family_table.py "outputs/sweeps/${NAME}_seconds" --seconds
elif [ "${1:-}" = time ]; then
    "$PYTHON" -m grpo_runner -m experiment=family_time sweep_name="${NAME}_time" "${SPREAD[@]}"
    "$PYTHON" scripts/family_table.py "outputs/sweeps/${NAME}_time"
else
    "$PYTHON" -m grpo_runner -m experiment=family sweep_name="$NAME" "${SPREAD[@]}"
    "$PYTHON" scripts/family_table.py "outputs/sweeps/$NAME"
fi
