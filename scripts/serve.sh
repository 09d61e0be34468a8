#!/usr/bin/env bash
# Serve all committed models with explanations: `attribution-benchmarks serve` from a checkout that is not installed.
#
#     bash scripts/serve.sh
#     bash scripts/serve.sh --stand_in       # without Docker: a small server in Python, for trying things out
#     bash scripts/serve.sh --export_only    # write the served files and stop
#
# PYTHON is the interpreter of this project's environment, IMAGE the image, GRPC_PORT and REST_PORT the ports, MODELS
# another directory of models with its models.config. `attribution-benchmarks serve --help` lists all options.
#
# Cost: see `attribution-benchmarks serve --help`.
set -euo pipefail

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
    sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p;}' "$0"
    exit 0
fi

cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python}" -m attribution_benchmarks.serving.serve --models="${MODELS:-saved_models}" \
    --image="${IMAGE:-tensorflow/serving}" --grpc_port="${GRPC_PORT:-8500}" --rest_port="${REST_PORT:-8501}" "$@"
