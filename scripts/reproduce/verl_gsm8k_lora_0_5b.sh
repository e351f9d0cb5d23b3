#!/usr/bin/env bash
# verl's GSM8K run with LoRA on Qwen2.5-0.5B-Instruct, greedy (verl docs/algo/baseline.md).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" verl_gsm8k_lora_0_5b verl.gsm8k_lora.qwen2_5_0_5b_instruct "evaluation=gsm8k_test" "$@"
