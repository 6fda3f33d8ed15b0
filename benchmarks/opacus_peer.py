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
    model = GradSampleModule(network(inputs, width))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=batch,
    )  # fmt: skip
    batches = [batch_of(batch, inputs)]
    return lambda: steps_on(model, optimizer, nn.CrossEntropyLoss(), batches)


def network_step_ghost(batch: int, inputs: int, width: int) -> Run:
    """Norms first, then a second backward pass of the weighted loss."""
    model = GradSampleModuleFastGradientClipping(network(inputs, width), max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=batch,
    )  # fmt: skip
    criterion = DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss(), loss_reduction="mean")
    batches = [batch_of(batch, inputs)]
    return lambda: steps_on(model, optimizer, criterion, batches)


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
    "network_epoch_hooks": network_epoch_hooks,
    "network_epoch_ghost": network_epoch_ghost,
}
