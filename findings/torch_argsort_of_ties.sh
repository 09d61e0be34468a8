#!/usr/bin/env bash
# PyTorch on a CPU: argsort of equal values is neither in order nor reversed.
#
# Metrics that remove pixels in the order of a map (pixel flipping, ROAD, insertion and deletion) sort maps that are full
# of ties: a class activation map is 0 at half of its positions.
#
# Guess: `torch.argsort` makes no promise about ties, but on a CPU it is stable, so that equal values keep their order.
# Asked "are the first five of torch.argsort(torch.zeros(20)) 0, 1, 2, 3, 4 on a CPU?", the answer from memory was yes.
# Seen with PyTorch 2.13.0 on an x86-64 processor with AVX-512: 5 and 16 zeros keep their order; 17 and more do not, and
# 20 zeros give 10, 19, 18, ..., 11, 0, 9, ..., 1. Of a map of 64 positions whose first half is 0, position 16 is removed
# first among these. `stable=True` keeps the order. Other processors may sort in another way; this one is checked alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import torch

print("torch", torch.__version__, torch.backends.cpu.get_cpu_capability())
if torch.backends.cpu.get_cpu_capability() != "AVX512":
    raise SystemExit("not checked: the order was seen with AVX-512")
order = {count: torch.argsort(torch.zeros(count)).tolist() for count in (5, 16, 17, 20)}
for count, found in order.items():
    print(count, "zeros:", found)
assert order[5] == list(range(5)) and order[16] == list(range(16))
assert order[20] == [10, *range(19, 10, -1), 0, *range(9, 0, -1)]
assert order[17] != list(range(17))
cam = torch.relu(torch.linspace(-1, 1, 64))  # half of it is 0, as of a class activation map
flipped = torch.argsort(cam, descending=True)[32:]  # the order in which a metric removes the ties
print("ties of a map of 64:", flipped.tolist()[:8])
assert flipped.tolist() != sorted(flipped.tolist()) and flipped.tolist() != sorted(flipped.tolist(), reverse=True)
for count in (20, 64):
    assert torch.argsort(torch.zeros(count), stable=True).tolist() == list(range(count))
PYTHON
