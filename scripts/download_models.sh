#!/usr/bin/env bash
# Fetch and unpack the thirteen TensorFlow 1 models of BIM's authors.
#
#     MODELS_URL=https://example.org/bim bash scripts/download_models.sh [models/bim]
#     python -m bim.metrics --compat=upstream --models_dir=models/bim --data_dir=data/bim
#
# The storage bucket of the authors is gone. MODELS_URL names a place that holds obj.tar.gz, scene.tar.gz, ...;
# archives that already lie in the directory are unpacked without it.
#
# Cost: 13 archives of a ResNet-50, some 100 MB each.
set -euo pipefail

case "${1:-}" in
    -h | --help) sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p;}' "$0"; exit 0 ;;
    -*) echo "error: unexpected argument '$1'; the only one is the directory of the models, see --help" >&2; exit 2 ;;
esac
models="${1:-models/bim}"
mkdir -p "$models"
for name in obj scene scene_only scene{1..10}; do
    if [[ -e "$models/$name/saved_model.pb" ]]; then
        continue
    fi
    archive="$models/$name.tar.gz"
    if [[ ! -e "$archive" ]]; then
        if [[ -z "${MODELS_URL:-}" ]]; then
            echo "error: no $archive; put it there, or set MODELS_URL to where $name.tar.gz is" >&2
            exit 2
        fi
        curl --fail --location --output "$archive.part" "$MODELS_URL/$name.tar.gz"
        mv "$archive.part" "$archive"
    fi
    # Unpacked elsewhere and renamed, so that a model is there whole or not at all; nothing of it leaves its folder.
    unpacked="$(mktemp -d "$models/.unpacking.XXXXXX")"
    trap 'rm -rf "$unpacked"' EXIT
    tar -xzf "$archive" -C "$unpacked" --no-same-owner --no-same-permissions
    if [[ ! -e "$unpacked/$name/saved_model.pb" ]]; then
        echo "error: $archive does not hold $name/saved_model.pb" >&2
        exit 2
    fi
    if [[ -n "$(find "$unpacked" ! -type f ! -type d -print -quit)" ]]; then
        echo "error: $archive holds a link or a device; nothing of it was taken" >&2
        exit 2
    fi
    rm -rf "${models:?}/$name"
    mv "$unpacked/$name" "$models/$name"
    rm -rf "$unpacked"
    echo "$name" >&2
done
