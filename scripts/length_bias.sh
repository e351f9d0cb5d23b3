#!/usr/bin/env bash
# The pre-registered test of docs/length_bias.md, end to end: the two bases, the prediction, the sweeps, the verdict.
# Typed again it goes on where it was stopped.
#
#   bash scripts/length_bias.sh                 twelve seeds: about half an hour on two idle cores
#   SEEDS='range(100,104)' NAME=try bash scripts/length_bias.sh      other seeds, in folders of their own
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-.venv/bin/python}
SEEDS=${SEEDS:-range(0,12)}
NAME=${NAME:-length_bias}
JOBS=${JOBS:-2}
BASE=build/length_bias
export PYTHONPATH=$PWD OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

[ -f $BASE/base/model.safetensors ] || "$PYTHON" scripts/length_bias/build_base.py
[ -f $BASE/blind/model.safetensors ] || "$PYTHON" scripts/length_bias/build_base.py --blind
[ -f $BASE/prediction.json ] || "$PYTHON" scripts/length_bias/predict_drift.py --json $BASE/prediction.json

SWEEP=("$PYTHON" -m grpo_runner -m experiment=length_bias hydra/launcher=joblib "hydra.launcher.n_jobs=$JOBS" "seed=$SEEDS")
"${SWEEP[@]}" advantage=grpo,dr_grpo loss_norm=sequence_mean,constant "sweep_name=$NAME"
# the control: GRPO alone, on the base whose tail does not tell
"${SWEEP[@]}" model.path=$BASE/blind "sweep_name=${NAME}_blind"

"$PYTHON" scripts/length_bias/length_verdict.py --runs "outputs/sweeps/$NAME" --blind "outputs/sweeps/${NAME}_blind" \
    --prediction $BASE/prediction.json --json "outputs/sweeps/$NAME/verdict.json"
"$PYTHON" -m grpo_runner compare "outputs/sweeps/$NAME" --by advantage,loss_norm --baseline advantage=grpo,loss_norm=sequence_mean \
    --html "outputs/sweeps/$NAME/report.html"
