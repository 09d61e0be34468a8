#!/usr/bin/env bash
# Download the photographs of BIM: MSCOCO train2017 (19 GB) with its annotations, and MiniPlaces (0.5 GB).
#
#     bash scripts/download_datasets.sh [data]
#     python scripts/construct_bim_dataset.py --coco_dir=data/coco --miniplaces_dir=data/miniplaces --data_dir=data/bim
#
# A download that was cut off continues; an archive that was unpacked is not fetched again.
#
# Cost: 20 GB to fetch, and twice as much on the disk while an archive is unpacked.
set -euo pipefail

case "${1:-}" in
    -h | --help) sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p;}' "$0"; exit 0 ;;
    -*) echo "error: unexpected argument '$1'; the only one is a directory to write to, see --help" >&2; exit 2 ;;
esac
data="${1:-data}"

fetch() { # address, file: download to a temporary name, then unpack into the directory given third
    local address="$1" archive="$2" target="$3"
    mkdir -p "$target"
    if [[ -e "$target/.${archive##*/}.done" ]]; then
        echo "already there: $target (${archive##*/})" >&2
        return
    fi
    curl --fail --location --continue-at - --output "$archive.part" "$address" || {
        echo "error: cannot download $address; look whether the address still holds" >&2
        exit 2
    }
    mv "$archive.part" "$archive"
    case "$archive" in
        *.zip) unzip -q -o "$archive" -d "$target" ;;
        *.tar.gz) tar -xzf "$archive" -C "$target" ;;
    esac
    rm "$archive"
    touch "$target/.${archive##*/}.done"
}

mkdir -p "$data"
fetch "${COCO_URL:-http://images.cocodataset.org}/annotations/annotations_trainval2017.zip" \
    "$data/annotations_trainval2017.zip" "$data/coco"
fetch "${COCO_URL:-http://images.cocodataset.org}/zips/train2017.zip" "$data/train2017.zip" "$data/coco"
fetch "${MINIPLACES_URL:-http://miniplaces.csail.mit.edu/data}/data.tar.gz" "$data/miniplaces.tar.gz" "$data/miniplaces"
echo "done: $data/coco and $data/miniplaces" >&2
