#!/usr/bin/env bash
# Grad-CAM of the predicted class is empty for many pictures, of networks that are right on 97 % of them.
#
# Guess: less than 2 % of the maps of the predicted class are 0 everywhere. Written before the run.
# Seen with captum 0.9.0 and PyTorch 2.13.0 (LayerGradCam at the second of two convolutions, one Dense layer after the
# pooling, scikit-learn's digits, test accuracy 0.97 to 0.98): 9, 34, 12, 14 and 28 % are 0 at every position after the
# ReLU for five seeds, and 98 to 100 % of the maps have a negative sum before it. With a hidden layer of 64 units
# between pooling and the classes, and 32 channels, it is less than 1 %.
# A reader without tools, asked pointedly, answered: less than 1 %, and about 10 % have a negative sum.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet captum==0.9.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
OMP_NUM_THREADS=1 "$folder/venv/bin/python" - <<'PYTHON'
import captum
import torch
from captum.attr import LayerGradCam
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

nn = torch.nn
pictures, labels = load_digits(return_X_y=True)
parts = train_test_split(pictures / 16, labels, test_size=0.25, random_state=0, stratify=labels)
train, test, train_labels, test_labels = (torch.tensor(part) for part in parts)
train, test = train.float().reshape(-1, 1, 8, 8), test.float().reshape(-1, 1, 8, 8)
print("captum", captum.__version__, "torch", torch.__version__)
empty, negative = [], []
for seed in range(5):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
    network.extend(nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)))
    optimizer = torch.optim.Adam(network.parameters())
    for _ in range(20):
        for batch in torch.randperm(len(train)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(train[batch]), train_labels[batch]).backward()
            optimizer.step()
    predicted = network(test).argmax(1)
    maps = LayerGradCam(network, network[2]).attribute(test, target=predicted).flatten(1)
    empty.append((maps.amax(1) <= 0).float().mean().item())
    negative.append((maps.sum(1) < 0).float().mean().item())
    accuracy = (predicted == test_labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}, empty maps {empty[-1]:.3f}, negative sums {negative[-1]:.3f}")
    assert accuracy > 0.95
assert min(empty) > 0.05 and max(empty) > 0.2 and min(negative) > 0.9
PYTHON
