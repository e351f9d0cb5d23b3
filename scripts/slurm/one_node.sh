#!/usr/bin/env bash
# One machine, a process a GPU. From the root of the checkout, with Hydra overrides behind the script's name:
#   sbatch scripts/slurm/one_node.sh experiment=dr_grpo model=qwen2_5_1_5b
#   sbatch --gpus-per-node=2 --time=2:00:00 scripts/slurm/one_node.sh experiment=quickstart
# BIN: the folder of python and torchrun; left out: .venv/bin, which `make setup` makes.
#SBATCH --job-name=grpo
#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=8 --cpus-per-task=64
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:?hand it in with sbatch}"
# shellcheck source=scripts/slurm/requeue.sh
source scripts/slurm/requeue.sh # Slurm runs a copy of this script elsewhere: what is beside it is found from the checkout

keep_going srun "${BIN:-.venv/bin}/torchrun" --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" --shutdown-timeout 300 \
    -m grpo_runner "$@"
