#!/usr/bin/env bash
# Reproduce one preset: install, plan, train, evaluate, compare with the published figures. The scripts beside this one
# call it: `run.sh PRESET FIGURES WORDS [OVERRIDE …]`.
#   PRESET    a file of conf/experiment
#   FIGURES   a name of published figures in docs/facts.csv
#   WORDS     what `evaluate` is asked beside the run's own settings, in one argument; may be empty
#   OVERRIDE  of the training, such as rollout=vllm or data.train.path=FILE
# Typed again, it goes on where it stopped. Environment:
#   DEBUG=1   the whole chain in seconds: two steps of the preset's method on the embedded model, on the CPU
#   GPUS=N    processes to train with, one a GPU; left out: as many as there are
#   OUT=FOLDER  where the run and its evaluation go, from the root of the repository; left out: outputs/reproduce/PRESET
set -euo pipefail
if [ $# -lt 3 ]; then
    echo "Usage: run.sh PRESET FIGURES WORDS [OVERRIDE ...]" >&2
    exit 2
fi
preset=$1 figures=$2
read -ra words <<< "$3"
overrides=("experiment=$preset" "${@:4}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=.venv/bin/python debug=${DEBUG:-0} folder=outputs/reproduce
if [ "$debug" = 1 ]; then folder+=/debug; fi
out=${OUT:-$folder/$preset}

say() { printf '\n== %s\n' "$*"; }

gpus() {
    if [ "$debug" = 1 ]; then
        echo 0
    elif [ -n "${GPUS:-}" ]; then
        echo "$GPUS"
    elif command -v nvidia-smi > /dev/null; then
        nvidia-smi --list-gpus | wc -l
    else
        echo 0
    fi
}

# the sets of the published figures, each asked with the few sums of debug.jsonl
debug_sets() {
    local names name
    names=$("$python" -c '
import sys
from grpo_runner import facts
print(*(name for name in facts.figures(sys.argv[1]) if name != "average"))' "$figures")
    for name in $names; do
        echo "+evaluation.sets.$name.path=scripts/reproduce/debug.jsonl"
    done
}

say "Install"
[ -x "$python" ] || make setup
if [ "$debug" = 1 ]; then
    # what depends on the model and its data is the embedded one's; the method stays the preset's
    overrides+=(model=tiny data=arithmetic prompt=tiny reward=math_answer rollout=native evaluation=default
        evaluation.every=2 evaluation.questions=8 evaluation.samples=2 max_new_tokens=32
        optim.updates_per_rollout=1 optim.minibatch=whole optim.warmup_steps=0 debug=cpu_smoke)
    rm -rf "$out/run" "$out/evaluation"
    sets=$(debug_sets)
    read -ra words <<< "${sets//$'\n'/ }"
fi

say "Plan: what it is, what happens, what it needs"
"$python" -m grpo_runner plan "${overrides[@]}"

say "Train into $out/run"
processes=$(gpus)
if [ "$processes" -gt 1 ]; then
    train=("$python" -m torch.distributed.run --standalone --nproc-per-node "$processes" -m grpo_runner)
else
    train=("$python" -m grpo_runner)
fi
"${train[@]}" "${overrides[@]}" "hydra.run.dir=$out/run"

say "Evaluate before and after, beside the published figures $figures"
"$python" -m grpo_runner evaluate "adapter=$out/run" --base "${words[@]}" --against "$figures" --output "$out/evaluation"
