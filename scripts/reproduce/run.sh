#!/usr/bin/env bash
# Reproduce one preset: install, plan, train, evaluate, compare with the published figures. The scripts beside this one
# call it: `run.sh PRESET FIGURES WORDS [OVERRIDE …]`.
#   PRESET    a file of conf/experiment
#   FIGURES   a name of published figures in docs/facts.csv
#   WORDS     what `evaluate` is asked beside the run's own settings, in one argument; may be empty
#   OVERRIDE  of the training, such as rollout.batch_rows=32 or data.train.path=FILE; those of the group evaluation are
#             `evaluate`'s too. Paths are from the root of the repository
# Typed again, it goes on where it stopped. Environment:
#   DEBUG=1   the whole chain in about half a minute: two steps of the preset's method on the embedded model, on the CPU
#   GPUS=N    processes to train with, one a GPU; left out: as many as there are; 0: one, on whatever there is
#   OUT=FOLDER  where the run and its evaluation go, from the root of the repository; left out: outputs/reproduce/PRESET
#   ANYWAY=1  train even where the plan says that memory is too small (it counts with the longest answers)
set -euo pipefail

say() { printf '\n== %s\n' "$*"; }
refuse() {
    printf '%s\n' "$@" >&2
    exit 2
}

[ $# -ge 3 ] || refuse "Usage: run.sh PRESET FIGURES WORDS [OVERRIDE ...]"
preset=$1 figures=$2
read -ra words <<< "$3"
shift 3
script="scripts/reproduce/$preset.sh"
[ "${1:-}" != -h ] && [ "${1:-}" != --help ] || { sed -n '/^# Typed again/,/^set/s/^# \?//p' "${BASH_SOURCE[0]}" && exit; }
for word in "$@"; do
    [[ $word == [!-]*=* || $word == '~'* ]] || refuse "\"$word\" is no override: write KEY=VALUE, such as steps=20." \
        "What else there is: $script --help"
done
debug=${DEBUG:-0}
[[ $debug == [01] ]] || refuse "DEBUG=$debug is not allowed. Allowed: 1, or nothing."
[[ ${GPUS:-0} =~ ^[0-9]+$ ]] || refuse "GPUS=$GPUS is not allowed. Allowed: how many to train on, or nothing for all."

# how many GPUs there are for us; a driver that fails prints other lines
gpus() {
    if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
        tr ',' '\n' <<< "$CUDA_VISIBLE_DEVICES" | wc -l
    else
        { nvidia-smi --list-gpus 2> /dev/null || true; } | grep -c '^GPU ' || true
    fi
}

if [ "$debug" = 1 ]; then
    processes=1
elif [ -n "${GPUS:-}" ]; then
    processes=$GPUS
else
    processes=$(gpus)
    [ "$processes" -gt 0 ] || refuse "No NVIDIA GPU was found, and this preset is made for them (conf/experiment/$preset.yaml)." \
        "The same chain in half a minute, with the embedded model: DEBUG=1 $script" \
        "Training on what there is, however long it takes: GPUS=0 $script${*:+ $*}"
fi

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=.venv/bin/python folder=outputs/reproduce
[ "$debug" = 0 ] || folder+=/debug
out=${OUT:-$folder/$preset}
overrides=("experiment=$preset")
for word in "$@"; do
    if [[ $word =~ ^[+~]*evaluation([.=@]|$) ]]; then words+=("$word"); fi
    if [[ $debug = 1 && $word =~ ^[+~]*(data|model|prompt|reward|rollout)([.=@]|$) ]]; then
        echo "DEBUG=1: $word is left out, the embedded model has its own."
    elif [[ $debug = 0 || ! $word =~ ^[+~]*evaluation([.=@]|$) ]]; then
        overrides+=("$word")
    fi
done

say "Install"
[ -e .venv/.ready ] || make setup  # not a stopped set-up
if [ "$debug" = 1 ]; then
    # what depends on the model and its data is the embedded one's; the method stays the preset's
    overrides+=(model=tiny data=arithmetic prompt=tiny reward=math_answer rollout=native evaluation=default
        evaluation.every=2 evaluation.questions=8 evaluation.samples=2 max_new_tokens=32
        optim.updates_per_rollout=1 optim.minibatch=whole optim.warmup_steps=0 debug=cpu_smoke)
    asked=$("$python" -m scripts.reproduce.debug "$preset" ${words[@]+"${words[@]}"})
    words=()
    while IFS= read -r word; do words+=("$word"); done <<< "$asked"
fi

say "Plan: what it is, what happens, what it needs"
mkdir -p "$out"
"$python" -m grpo_runner plan "${overrides[@]}" --processes "$((processes > 1 ? processes : 1))" --json "$out/plan.json"
[ "$debug" = 1 ] || [ "${ANYWAY:-0}" = 1 ] || "$python" -m scripts.reproduce.ready "$out/plan.json" "$script"

say "Train into $out/run"
train=("$python" -m grpo_runner)
if [ "$processes" -gt 1 ]; then
    # after Ctrl-C a step is finished and saved, for which torchrun's own 30 seconds may be too short
    train=("$python" -m torch.distributed.run --standalone --shutdown-timeout 600 --nproc-per-node "$processes"
        -m grpo_runner)
fi
"${train[@]}" "${overrides[@]}" "hydra.run.dir=$out/run" || {
    status=$?
    [ "$processes" -le 1 ] || echo "What ended it stands above torch's own report. The same command goes on." >&2
    exit $status
}

say "Evaluate before and after, beside the published figures $figures"
"$python" -m grpo_runner evaluate "adapter=$out/run" --base ${words[@]+"${words[@]}"} --against "$figures" --output "$out/evaluation"
[ "$debug" = 0 ] || say "The chain works. Its figures mean nothing: two steps of the embedded model, asked four sums."
