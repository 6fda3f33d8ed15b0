"""Opacus's side: steps of DP-SGD, with per-sample gradients by hooks or with ghost clipping. Runs in .venv-opacus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Run = Callable[[], object]

torch.set_num_threads(1)


def network(inputs: int, width: int) -> nn.Module:
    """Two hidden layers of that width, two classes."""
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )  # fmt: skip


def convolutions(side: int, channels: int, width: int) -> nn.Module:
    """Two convolutions of 3×3 with pooling, one hidden layer, ten classes."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(2 * channels * (side // 4) ** 2, width), nn.ReLU(), nn.Linear(width, 10),
    )  # fmt: skip


def images_of(batch: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, 1, side, side, generator=generator), torch.randint(0, 10, (batch,), generator=generator)


def batch_of(batch: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and labels."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, inputs, generator=generator), torch.randint(0, 2, (batch,), generator=generator)


def steps_on(model: nn.Module, optimizer: Any, criterion: Any, batches: Iterable[Any]) -> None:
    """A step on each batch."""
    for x, labels in batches:
        optimizer.zero_grad()
        criterion(model(x), labels).backward()
        optimizer.step()


def network_step_hooks(batch: int, inputs: int, width: int) -> Run:
    """The gradient of every row is formed."""
    return hooks(network(inputs, width), batch_of(batch, inputs))


def convolution_step_hooks(batch: int, side: int, channels: int, width: int) -> Run:
    """The same of a network with convolutions."""
    return hooks(convolutions(side, channels, width), images_of(batch, side))


def hooks(network: nn.Module, given: tuple[torch.Tensor, torch.Tensor]) -> Run:
    """Steps of any network."""
    model = GradSampleModule(network)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(given[0]),
    )  # fmt: skip
    return lambda: steps_on(model, optimizer, nn.CrossEntropyLoss(), [given])


def network_step_ghost(batch: int, inputs: int, width: int) -> Run:
    """Norms first, then a second backward pass of the weighted loss."""
    return ghost(network(inputs, width), batch_of(batch, inputs))


def convolution_step_ghost(batch: int, side: int, channels: int, width: int) -> Run:
    """The same of a network with convolutions."""
    return ghost(convolutions(side, channels, width), images_of(batch, side))


def ghost(network: nn.Module, given: tuple[torch.Tensor, torch.Tensor]) -> Run:
    """Steps of any network."""
    model = GradSampleModuleFastGradientClipping(network, max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(given[0]),
    )  # fmt: skip
    criterion = DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss(), loss_reduction="mean")
    return lambda: steps_on(model, optimizer, criterion, [given])


def network_epoch_hooks(rows: int, batch: int, inputs: int, width: int) -> Run:
    """An epoch as its users run it: the privacy engine's Poisson loader feeds its optimizer."""
    return epoch(rows, batch, inputs, width, "hooks")


def network_epoch_ghost(rows: int, batch: int, inputs: int, width: int) -> Run:
    """The same with ghost clipping."""
    return epoch(rows, batch, inputs, width, "ghost")


def epoch(rows: int, batch: int, inputs: int, width: int, mode: str) -> Run:
    """One pass over the privacy engine's loader."""
    model = network(inputs, width)
    private = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        data_loader=DataLoader(TensorDataset(*batch_of(rows, inputs)), batch_size=batch),
        criterion=nn.CrossEntropyLoss(),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
    )
    if mode == "ghost":
        model, optimizer, criterion, loader = private
    else:
        (model, optimizer, loader), criterion = private, nn.CrossEntropyLoss()
    return lambda: steps_on(model, optimizer, criterion, loader)


CASES = {
    "network_step_hooks": network_step_hooks,
    "network_step_ghost": network_step_ghost,
    "convolution_step_hooks": convolution_step_hooks,
    "convolution_step_ghost": convolution_step_ghost,
    "network_epoch_hooks": network_epoch_hooks,
    "network_epoch_ghost": network_epoch_ghost,
}
