#!/usr/bin/env bash
# verl's MATH run with LoRA on Qwen2.5-7B-Instruct, the 5,000 test questions, greedy (the name of verl's log).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" verl_math_7b verl.math_lora.qwen2_5_7b_instruct "" "$@"
