#!/usr/bin/env bash
# Download the thirteen TensorFlow 1 models of BIM's authors from their repository, and unpack them.
#
#     bash scripts/download_models.sh [models/bim]
#     python -m bim.metrics --compat=upstream --models_dir=models/bim --data_dir=data/bim
#
# A download that was cut off continues; a model that was unpacked is not fetched again, an archive that lies in the
# directory is unpacked as it is. Each downloaded archive is compared with the authors' by its Git object id. MODELS_URL
# names another place that holds the same archives, obj.tar.gz, scene.tar.gz, ...
#
# Cost: 13 archives of a ResNet-50, some 100 MB each.
set -euo pipefail

case "${1:-}" in
    -h | --help) sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p;}' "$0"; exit 0 ;;
    -*) echo "error: unexpected argument '$1'; the only one is the directory of the models, see --help" >&2; exit 2 ;;
esac
models="${1:-models/bim}"
commit=0644a9e3e7109bd64bb7ae4b3a75be01f8355496
address="${MODELS_URL:-https://github.com/google-research-datasets/bam/raw/$commit/models}"

object_id() { # of a file, as Git computes it
    { printf 'blob %s\0' "$(wc -c < "$1" | tr -d ' ')"; cat "$1"; } | sha1sum | cut -d " " -f 1
}

mkdir -p "$models"
while read -r name expected; do
    if [[ -e "$models/$name/saved_model.pb" ]]; then
        continue
    fi
    archive="$models/$name.tar.gz"
    if [[ ! -e "$archive" ]]; then
        if [[ ! -e "$archive.part" || "$(object_id "$archive.part")" != "$expected" ]]; then
            curl --fail --location --continue-at - --output "$archive.part" "$address/$name.tar.gz" || {
                echo "error: cannot download $address/$name.tar.gz; run the command again, remove $archive.part, or put $archive there" >&2
                exit 2
            }
        fi
        if [[ "$(object_id "$archive.part")" != "$expected" ]]; then
            echo "error: $archive.part is not the authors' archive; remove it to download again" >&2
            exit 2
        fi
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
done << END
obj 209aece530503c415c3b9385b50a95743c7c1f59
scene 071608d98c12ca4b8a8cbea7e88bd34be96daa7e
scene_only cfb587c6c2941218340ccc43c5667f7df546df3f
scene1 7afb62131f646995bafbc550b861a3eb94a3de48
scene2 aca249d0db4a527a0409b21f8ee5ac4cf6e310be
scene3 80a5313dccc13ea991539e1444bb9383ce746dfe
scene4 a05d7b092ecc2d19faa9ffd3ddf2939566cddc3e
scene5 c5ea3805a99849f5a2b475487f8149c0bd3639ef
scene6 3ba6c3192a87d95bb85c761f8f78c8381ef5fa5f
scene7 bb36cee05eb4b5fd73626c8fc2d2a86ffbb7040a
scene8 651c9d1337ae0e1ba2c45df4b9cac728ef7703aa
scene9 5dfe5e63c43bed6a144750ac4e8c4a56c86d08e7
scene10 17ac8cd42f3dd18466bf314b387541c70025b16c
END
