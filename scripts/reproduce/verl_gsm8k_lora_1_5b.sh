#!/usr/bin/env bash
# verl's GSM8K run with LoRA on Qwen2.5-1.5B-Instruct, greedy (verl docs/algo/baseline.md).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" verl_gsm8k_lora_1_5b verl.gsm8k_lora.qwen2_5_1_5b_instruct "evaluation=gsm8k_test" "$@"
