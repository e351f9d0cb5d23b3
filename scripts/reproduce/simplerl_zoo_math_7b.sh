#!/usr/bin/env bash
# SimpleRL-Zoo math_7b.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_math_7b simplerl_zoo.math_7b "" "$@"
