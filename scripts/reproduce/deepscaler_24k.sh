#!/usr/bin/env bash
# DeepScaleR-1.5B.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" deepscaler_24k deepscaler.1_5b "" "$@"
