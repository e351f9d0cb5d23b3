#!/usr/bin/env bash
# Several machines: one torchrun on each, which meet at the first one's port and start a process a GPU. From the root of a
# checkout that all of them see:
#   sbatch --nodes=4 scripts/slurm/many_nodes.sh experiment=dr_grpo model=qwen2_5_1_5b
# BIN: the folder of python and torchrun; left out: .venv/bin. PORT: left out: 29500.
#SBATCH --job-name=grpo
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --cpus-per-task=64
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:?hand it in with sbatch}"
# shellcheck source=scripts/slurm/requeue.sh
source scripts/slurm/requeue.sh # Slurm runs a copy of this script elsewhere: what is beside it is found from the checkout

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${hosts%%$'\n'*}
# a requeued job has the same id: with the number of its restarts, late processes of the first try are not waited for
keep_going srun "${BIN:-.venv/bin}/torchrun" --nnodes "$SLURM_NNODES" --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" \
    --shutdown-timeout 300 --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}" \
    --rdzv-endpoint "$head:${PORT:-29500}" -m grpo_runner "$@"
