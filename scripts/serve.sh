#!/usr/bin/env bash
# Serve all committed models with explanations by TensorFlow Serving: gRPC on port 8500, REST on port 8501.
#
#     bash scripts/serve.sh
#     bash scripts/serve.sh --stand_in       without Docker: a small server in Python, for trying things out
#     bash scripts/serve.sh --export_only    write the served files and stop
#
# The served files are made once from the committed models and lie in saved_models/served.
# Both answer this machine alone: neither asks who is there.
# PYTHON is the interpreter of this project's environment, IMAGE the image, GRPC_PORT and REST_PORT the ports, MODELS
# another directory of models with its models.config.
#
# Cost: about 5 CPU seconds a model until all 19 are ready at the first start on a fresh clone with --stand_in, some 4 of
# them for writing its served file; 14 CPU seconds in all and 1.5 GB at the next.
set -euo pipefail

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
    sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p;}' "$0"
    exit 0
fi

cd "$(dirname "$0")/.."
root="$PWD"
python="${PYTHON:-python}"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
models="${MODELS:-$root/saved_models}"
mode="${1:-}"
case "$mode" in
    "" | --stand_in | --export_only) ;;
    *) echo "error: unexpected argument '$mode'; there are --stand_in and --export_only" >&2; exit 2 ;;
esac
if [[ "$mode" == "" ]] && ! command -v docker >/dev/null; then
    echo "error: no docker; install it, or run 'bash scripts/serve.sh --stand_in'" >&2
    exit 2
fi

if [[ "$mode" == --stand_in ]] && ! "$python" -c "import grpc, tensorflow_serving" 2>/dev/null; then
    echo "error: --stand_in needs tensorflow-serving-api: $python -m pip install -e '.[serving]'" >&2
    exit 2
fi

"$python" tools/export_committed_models.py --root="$models"

grpc_port="${GRPC_PORT:-8500}"
rest_port="${REST_PORT:-8501}"
if [[ "$mode" == --stand_in ]]; then
    exec "$python" tests/stand_in_server/stand_in.py --config="$models/models.config" --root="$models" \
        --grpc_port="$grpc_port" --rest_port="$rest_port"
elif [[ "$mode" == "" ]]; then
    exec docker run --rm --publish "127.0.0.1:$grpc_port:8500" --publish "127.0.0.1:$rest_port:8501" \
        --mount "type=bind,source=$models,target=/models,readonly" \
        "${IMAGE:-tensorflow/serving}" --model_config_file=/models/models.config
fi
