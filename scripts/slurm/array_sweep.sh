#!/usr/bin/env bash
# A sweep as a job array: each task takes the seed of its index, over all arms, on one GPU, into the folder of one sweep.
# From the root of a checkout that all machines see:
#   sbatch --array=0-7 scripts/slurm/array_sweep.sh night experiment=quickstart sweep=two_by_two
#   .venv/bin/python -m grpo_runner sweep status night
# The first word is the sweep's name; Hydra overrides follow. BIN: the folder of python; left out: .venv/bin.
#SBATCH --job-name=grpo-sweep
#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=1 --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:?hand it in with sbatch}"
# shellcheck source=scripts/slurm/requeue.sh
source scripts/slurm/requeue.sh # Slurm runs a copy of this script elsewhere: what is beside it is found from the checkout

name=${1:?the first word is the name of the sweep}
shift
keep_going srun "${BIN:-.venv/bin}/python" -m grpo_runner -m "$@" \
    "seed=${SLURM_ARRAY_TASK_ID:?hand it in with --array, for example --array=0-7}" "sweep_name=$name"
