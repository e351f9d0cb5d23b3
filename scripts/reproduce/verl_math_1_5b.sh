#!/usr/bin/env bash
# verl's MATH run with LoRA on Qwen2.5-1.5B-Instruct, the 5,000 test questions, greedy (the name of verl's log).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" verl_math_1_5b verl.math_lora.qwen2_5_1_5b_instruct "" "$@"
