"""The same two architectures in PyTorch, for captum; channels first, as captum's users have them."""

import torch
from torch import nn


def convolution(inputs, outputs, size, stride, relu=True):
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        *([nn.ReLU()] if relu else []),
    ]
    return nn.Sequential(*layers)


class Block(nn.Module):
    """A residual block around a list of convolutions."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut, self.relu = body, shortcut, nn.ReLU()

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def finish(layers, channels, classes):
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers).eval()


def small_resnet():
    torch.manual_seed(0)
    layers, channels = [convolution(3, 32, 5, 2)], 32
    for width, stride in ((32, 1), (64, 2), (128, 2), (160, 2)):
        body = nn.Sequential(convolution(channels, width, 3, stride), convolution(width, width, 3, 1, relu=False))
        shortcut = convolution(channels, width, 1, stride, relu=False) if stride > 1 else nn.Identity()
        layers.append(Block(body, shortcut))
        channels = width
    return finish(layers, channels, 10)


def resnet50():
    torch.manual_seed(0)
    layers, channels = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and block == 0 else 1
            body = nn.Sequential(
                convolution(channels, width, 1, stride),
                convolution(width, width, 3, 1),
                convolution(width, 4 * width, 1, 1, relu=False),
            )
            shortcut = convolution(channels, 4 * width, 1, stride, relu=False) if block == 0 else nn.Identity()
            layers.append(Block(body, shortcut))
            channels = 4 * width
    return finish(layers, channels, 1000)
