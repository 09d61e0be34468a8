"""The architectures of ``networks.py`` in PyTorch; channels first, as its users have them."""

import torch
import torchvision
from torch import nn


def convolution(inputs, outputs, size, stride, relu=True):
    normalization = nn.BatchNorm2d(outputs, eps=0)
    normalization.running_var += 1.001e-5  # the ε of Keras' ResNet-50, as oracles_torch.py has it
    layers = [nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False), normalization]
    return nn.Sequential(*layers, *([nn.ReLU()] if relu else []))


class Residual(nn.Module):
    """The sum of two ways."""

    def __init__(self, main, shortcut):
        super().__init__()
        self.shortcut, self.main = shortcut, main  # in this order Keras' names are sorted

    def forward(self, x):
        return self.main(x) + self.shortcut(x)


class Function(nn.Module):
    """A function without parameters as a layer."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


def resnet(layers, channels, blocks, classes, residual):
    """Append residual blocks of convolutions (width, size, stride) and a classifier."""
    for block in blocks:
        inputs, body = channels, []
        for width, size, stride in block:
            body.append(convolution(inputs, width, size, stride, relu=len(body) + 1 < len(block)))
            inputs = width
        stride, same = block[0][2], inputs == channels and block[0][2] == 1
        shortcut = nn.Identity() if same else convolution(channels, inputs, 1, stride, relu=False)
        layers.append(nn.Sequential(residual(nn.Sequential(*body), shortcut), nn.ReLU()))
        channels = inputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)).eval()


def small_resnet(residual):
    blocks = [[(width, 3, stride), (width, 3, 1)] for width, stride in ((32, 1), (64, 2), (128, 2), (160, 2))]
    return resnet([convolution(3, 32, 5, 2)], 32, blocks, 10, residual)


def resnet50(residual):
    blocks = []
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        blocks.append([(width, 1, 1 if width == 64 else 2), (width, 3, 1), (4 * width, 1, 1)])
        blocks += [[(width, 1, 1), (width, 3, 1), (4 * width, 1, 1)]] * (count - 1)
    return resnet([convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64, blocks, 1000, residual)


def efficientnetb0(residual):
    return torchvision.models.efficientnet_b0(weights=None).eval()


def vit_tiny(residual):
    block = {"activation": "gelu", "batch_first": True, "norm_first": True}
    layers = [nn.Conv2d(3, 192, 16, 16), Function(lambda x: x.flatten(2).transpose(1, 2))]
    layers += [nn.TransformerEncoderLayer(192, 3, 768, 0.0, **block) for _ in range(12)]
    layers += [nn.LayerNorm(192), Function(lambda x: x.mean(1)), nn.Linear(192, 1000)]
    return nn.Sequential(*layers).eval()


def cnn1d(residual):
    layers = []
    for inputs, width in ((1, 5), (25, 3), (25, 3)):
        layers += [nn.Conv1d(inputs, 25, width, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, Function(lambda x: x.transpose(1, 2)), nn.Flatten(), nn.Linear(1000, 10)).eval()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.dense = nn.LSTM(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.dense(self.lstm(x.transpose(1, 2))[0][:, -1])


def lstm(residual):
    return Recurrent()


def tensor(images):
    return torch.from_numpy(images).movedim(-1, 1).contiguous()


def build(network, residual=Residual, same_weights=False):
    """Return an untrained Keras network's architecture in PyTorch, with its kernels where padding is the same."""
    torch.set_num_threads(1)  # its threads spin while they wait, which would count as work
    torch.manual_seed(0)
    module = globals()[network.name](residual)
    layers = [layer for layer in module.modules() if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Linear))]
    sources = sorted((layer for layer in network.layers if hasattr(layer, "kernel")), key=lambda layer: layer.name)
    for layer, source in zip(layers, sources, strict=True) if same_weights else ():
        layer.weight.data = torch.from_numpy(source.kernel.numpy()).movedim((-1, -2), (0, 1)).contiguous()
        if layer.bias is not None:
            layer.bias.data.zero_()
    return module
