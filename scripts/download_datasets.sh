#!/usr/bin/env bash
# Download the photographs of BIM: MSCOCO train2017 (19 GB) with its annotations, and MiniPlaces (0.5 GB).
#
#     bash scripts/download_datasets.sh [data]
#     python scripts/construct_bim_dataset.py --coco_dir=data/coco --miniplaces_dir=data/miniplaces --data_dir=data/bim
#
# A download that was cut off continues; an archive that was unpacked is not fetched again. Archives of MSCOCO are
# compared with their SHA-256 as TensorFlow Datasets records it, from wherever they come. Nobody publishes one of MiniPlaces:
# it is printed, and compared with MINIPLACES_SHA256 if that is set.
#
# Cost: 20 GB to fetch, and twice as much on the disk while an archive is unpacked.
set -euo pipefail

case "${1:-}" in
    -h | --help) sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p;}' "$0"; exit 0 ;;
    -*) echo "error: unexpected argument '$1'; the only one is a directory to write to, see --help" >&2; exit 2 ;;
esac
data="${1:-data}"

fetch() { # address, file, directory, SHA-256 or nothing: download, check, unpack aside, then move into the directory
    local address="$1" archive="$2" target="$3" expected="$4" found entry
    mkdir -p "$target"
    if [[ -e "$target/.${archive##*/}.done" ]]; then
        echo "already there: $target (${archive##*/})" >&2
        return
    fi
    curl --fail --location --continue-at - --output "$archive.part" "$address" || {
        echo "error: cannot download $address; look whether the address still holds" >&2
        exit 2
    }
    found="$(sha256sum "$archive.part" | cut -d " " -f 1)"
    echo "${archive##*/}: SHA-256 $found" >&2
    if [[ -n "$expected" && "$found" != "$expected" ]]; then
        echo "error: $archive.part has another SHA-256 than $expected; remove it to download again" >&2
        exit 2
    fi
    unpacked="$(mktemp -d "$target/.unpacking.XXXXXX")"
    trap 'rm -rf "$unpacked"' EXIT
    case "$archive" in
        *.zip) unzip -q "$archive.part" -d "$unpacked" ;;
        *.tar.gz) tar -xzf "$archive.part" -C "$unpacked" --no-same-owner --no-same-permissions ;;
    esac || {
        echo "error: $archive.part cannot be unpacked; remove it to download again" >&2
        exit 2
    }
    if [[ -n "$(find "$unpacked" ! -type f ! -type d -print -quit)" ]]; then
        echo "error: $archive.part holds a link or a device; nothing of it was taken" >&2
        exit 2
    fi
    for entry in "$unpacked"/*; do
        rm -rf "${target:?}/${entry##*/}" # of a run that was stopped here
        mv "$entry" "$target/"
    done
    rm -rf "$unpacked"
    touch "$target/.${archive##*/}.done"
    rm "$archive.part"
}

mkdir -p "$data"
fetch "${COCO_URL:-http://images.cocodataset.org}/annotations/annotations_trainval2017.zip" \
    "$data/annotations_trainval2017.zip" "$data/coco" \
    113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268
fetch "${COCO_URL:-http://images.cocodataset.org}/zips/train2017.zip" "$data/train2017.zip" "$data/coco" \
    69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929
fetch "${MINIPLACES_URL:-http://miniplaces.csail.mit.edu/data}/data.tar.gz" "$data/miniplaces.tar.gz" \
    "$data/miniplaces" "${MINIPLACES_SHA256:-}"
echo "done: $data/coco and $data/miniplaces" >&2
