#!/usr/bin/env bash
# The smoke tests with the oldest or the newest versions that pyproject.toml allows: `scripts/versions.sh oldest|newest`.
# Makes an environment in build/versions/ (several GB where torch comes as its CUDA build), writes what was installed
# beside it, and ends with the tests' exit code. PYTHON, VERSIONS_DIR: which python, and where else.
set -euo pipefail
cd "$(dirname "$0")/.."
which=${1:-}
case $which in
    oldest) resolution=lowest-direct ;; # the lower bounds of pyproject.toml; what those bring is as new as they allow
    newest) resolution=highest ;;
    *) echo "Usage: scripts/versions.sh oldest|newest" >&2; exit 2 ;;
esac
folder=${VERSIONS_DIR:-build/versions}
venv=$folder/$which
# a path of everything that leans on another's package: config, model, sampling, update, checkpoint, resume, W&B,
# grading, evaluation, comparison, the command line
smoke=(
    tests/test_doctor.py tests/config/test_config_compose.py tests/policy/test_update.py tests/rollout/test_engines.py
    tests/train/test_run.py tests/train/test_checkpoint.py tests/tracking/test_tracking_wandb.py
    tests/tracking/test_tracking_questions.py tests/reward/test_answers.py tests/compare/test_compare_command.py
)

mkdir -p "$folder"
[ -x "$folder/tools/bin/uv" ] || { "${PYTHON:-python3}" -m venv "$folder/tools"; "$folder/tools/bin/pip" install --quiet uv; }
uv=$folder/tools/bin/uv
[ -x "$venv/bin/python" ] || "$uv" venv --quiet --python "${PYTHON:-python3}" "$venv"
install=("$uv" pip install --quiet --python "$venv/bin/python" --resolution "$resolution" --editable ".[dev]")
# the CPU build is enough; where its index cannot be reached, the default one
"${install[@]}" --torch-backend cpu 2>/dev/null || "${install[@]}"
"$uv" pip freeze --quiet --python "$venv/bin/python" --exclude-editable > "$folder/$which.txt"
grep -E '^(torch|transformers|peft|hydra-core|omegaconf|datasets|wandb|math-verify|numpy|pydantic)==' "$folder/$which.txt"
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false \
    "$venv/bin/python" -m pytest -q -m "not slow and not gpu" -p no:cacheprovider "${smoke[@]}"
