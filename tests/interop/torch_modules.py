"""What PyTorch computes: run by an interpreter that has it.

    python torch_modules.py MODULE WEIGHTS.safetensors INPUTS.npz OUTPUTS.npy

The layers have the names that a drafted map gives the Keras models of `test_export_torch.py`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn


class Images(nn.Module):  # type: ignore[misc]
    """Convolutions in two and three dimensions, transposed too, with batch normalizations."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8, eps=1e-3)
        self.second_conv = nn.Conv2d(8, 5, (3, 2), bias=False)
        self.conv_transpose = nn.ConvTranspose2d(5, 4, 2, stride=2)
        self.volume_conv = nn.Conv3d(4, 3, (1, 2, 2))
        self.head = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        x = x.permute(0, 3, 1, 2)  # channels first
        x = torch.relu(self.bn(self.conv(x)))
        x = torch.relu(self.conv_transpose(torch.tanh(self.second_conv(x))))
        x = self.volume_conv(x.unsqueeze(2)).mean(dim=(2, 3, 4))
        return self.head(x)


class Words(nn.Module):  # type: ignore[misc]
    """An embedding, a convolution in one dimension, a layer normalization and dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.conv = nn.Conv1d(6, 7, 3)
        self.norm = nn.LayerNorm(7, eps=1e-3)
        self.hidden = nn.Linear(7, 7)
        self.head = nn.Linear(7, 2)

    def forward(self, x: Any) -> Any:
        x = self.conv(self.words(x).transpose(1, 2)).transpose(1, 2)
        return self.head(torch.relu(self.hidden(self.norm(x).mean(dim=1))))


class Whole(nn.Module):  # type: ignore[misc]
    """A checkpoint calls the network `model`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def main() -> None:
    """Load the weights, which must be complete, and write what the module computes."""
    name, weights, inputs, outputs = sys.argv[1:]
    whole = Whole({"images": Images, "words": Words}[name]())
    missing, unexpected = whole.load_state_dict(load_file(weights), strict=False)
    # TensorFlow has no such counter.
    assert all(each.endswith("num_batches_tracked") for each in missing), missing
    assert not unexpected, unexpected
    whole.eval()
    with torch.no_grad():
        found = whole.model(torch.from_numpy(np.load(inputs)))
    np.save(outputs, found.numpy())


if __name__ == "__main__":
    main()
