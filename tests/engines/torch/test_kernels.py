"""ATen's kernels in rows of the op table: each gives the numbers that ATen gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.torch.kernels import CHOSEN, KERNELS
from gradcheck_cli.engines.torch.kernels.derivatives import DERIVATIVES
from gradcheck_cli.engines.torch.kernels.elementwise import ELEMENTWISE
from gradcheck_cli.engines.trace.shadow import FIRST_BITS, Numbers, to_float
from reference_engine.arithmetic.arbs import precision
from tests.every import every

Function = Callable[[Any, Any, Any], Any]
"""Of PyTorch, some numbers and others like them."""

ELEMENT_BY_ELEMENT: dict[str, Function] = {
    "fmod": lambda torch, x, y: torch.fmod(x, y),
    "trunc": lambda torch, x, y: torch.trunc(3 * x),
    "div": lambda torch, x, y: torch.div(x, y, rounding_mode="floor"),
    "round": lambda torch, x, y: torch.round(x, decimals=2) + torch.round(100 * x, decimals=-1),
    "gelu": lambda torch, x, y: torch.nn.functional.gelu(x, approximate="tanh"),
    "hardtanh": lambda torch, x, y: torch.nn.functional.hardtanh(x, -0.3, 0.5),
    "log_sigmoid_forward": lambda torch, x, y: torch.nn.functional.logsigmoid(x),
    "fill": lambda torch, x, y: torch.ops.aten.fill.Tensor(x, y.sum()),
    "addcmul": lambda torch, x, y: torch.addcmul(x, x, y, value=2),
    "addcdiv": lambda torch, x, y: torch.addcdiv(x, x, y, value=0.5),
    "lerp": lambda torch, x, y: torch.lerp(x, y, 0.3) + torch.lerp(x, y, x),
    "glu": lambda torch, x, y: torch.nn.functional.glu(x[:, :2]),
    "celu": lambda torch, x, y: torch.nn.functional.celu(x, 0.7),
    "hardswish": lambda torch, x, y: torch.nn.functional.hardswish(3 * x),
    "hardsigmoid": lambda torch, x, y: torch.nn.functional.hardsigmoid(3 * x),
    "_prelu_kernel": lambda torch, x, y: torch.nn.functional.prelu(x, y[0]),
    "threshold": lambda torch, x, y: torch.nn.functional.threshold(x, 0.1, 7.0),
    "softshrink": lambda torch, x, y: torch.nn.functional.softshrink(x, 0.3),
    "hardshrink": lambda torch, x, y: torch.nn.functional.hardshrink(x, 0.3),
    "softplus": lambda torch, x, y: torch.nn.functional.softplus(x, 2, 0.4),
}
REDUCTIONS: dict[str, Function] = {
    "sum": lambda torch, x, y: x.sum([0], keepdim=True) + x[0, 0].sum(-1),
    "mean": lambda torch, x, y: x.mean(1),
    "prod": lambda torch, x, y: x.prod(1),
    "amax": lambda torch, x, y: x.amax([0, 1]),
    "amin": lambda torch, x, y: x.amin(-1),
    "logsumexp": lambda torch, x, y: x.logsumexp(1),
    "var": lambda torch, x, y: x.var(0, correction=0),
    "std": lambda torch, x, y: x.std(),
    "var_mean": lambda torch, x, y: torch.var_mean(x, 1)[0] + torch.var_mean(x, 1)[1],
    "std_mean": lambda torch, x, y: torch.std_mean(x, 1)[0],
    "linalg_vector_norm": lambda torch, x, y: torch.linalg.vector_norm(x, 3, 1) + x.norm(0),
    "norm": lambda torch, x, y: torch.ops.aten.norm.ScalarOpt_dim(x, 3, [1]),
    "cumsum": lambda torch, x, y: x.cumsum(1) + x[0, 0].cumsum(0),
    "cumprod": lambda torch, x, y: x.cumprod(0),
    "cummax": lambda torch, x, y: x.cummax(1)[0],
    "cummin": lambda torch, x, y: x.cummin(1)[0],
    "logcumsumexp": lambda torch, x, y: torch.logcumsumexp(x, 1),
    "max": lambda torch, x, y: x.max() + x.max(1)[0],
    "min": lambda torch, x, y: x.min() + x.min(0, keepdim=True)[0],
    "aminmax": lambda torch, x, y: torch.ops.aten.aminmax(x, dim=1)[0],
    "sort": lambda torch, x, y: x.sort(0, descending=True)[0] + x.sort(dim=1, stable=True)[0],
    "topk": lambda torch, x, y: x.topk(2, largest=False)[0],
    "kthvalue": lambda torch, x, y: x.kthvalue(2, 1, keepdim=True)[0] + x[0, 0].kthvalue(1)[0],
    "median": lambda torch, x, y: x.median() + x[:, :2].median(1)[0],
    "mode": lambda torch, x, y: x.mode(1)[0] + x.mode(0, keepdim=True)[0],
    "frexp": lambda torch, x, y: torch.frexp(x)[0],
    "_softmax": lambda torch, x, y: x.softmax(1) + x[0, 0].softmax(0),
    "_log_softmax": lambda torch, x, y: x.log_softmax(0),
    "_safe_softmax": lambda torch, x, y: torch.ops.aten._safe_softmax(
        torch.where(x == x[0], -torch.inf, x), 1
    )[1:],
    "_cdist_forward": lambda torch, x, y: torch.cdist(x, y, 1.5),
    "_pdist_forward": lambda torch, x, y: torch.nn.functional.pdist(x, 3),
}
PLACES = [[0, 2, 1], [1, 1, 0], [2, 0, 2]]
INDEXING: dict[str, Function] = {
    "index_put": lambda torch, x, y: x.index_put(
        (torch.tensor([0, 2]), torch.tensor([1, 1])), y[0, 0]
    ),
    "_index_put_impl": lambda torch, x, y: torch.ops.aten._index_put_impl_(
        x * 1, [torch.tensor([1, 1, 0])], y, True
    ),
    "_unsafe_index_put": lambda torch, x, y: torch.ops.aten._unsafe_index_put(
        x, [None, torch.tensor([2])], y[:, :1], True
    ),
    "put": lambda torch, x, y: x.put(torch.tensor([0, -1]), y[0, :2]),
    "scatter": lambda torch, x, y: (
        x.scatter(1, torch.tensor(PLACES)[:, :1], y) + x.scatter(0, torch.tensor([[1, 0]]), 7.0)
    ),
    "scatter_add": lambda torch, x, y: x.scatter_add(1, torch.tensor(PLACES), y),
    "scatter_reduce": lambda torch, x, y: sum(
        x.scatter_reduce(1, torch.tensor(PLACES), y, how, include_self=how != "mean")
        for how in ("sum", "prod", "mean", "amax", "amin")
    ),
    "index_add": lambda torch, x, y: x.index_add(0, torch.tensor([2, 2, 0]), y, alpha=2),
    "index_reduce": lambda torch, x, y: x.index_reduce(1, torch.tensor([0, 0, 2]), y, "prod"),
    "index_fill": lambda torch, x, y: x.index_fill(0, torch.tensor([1]), y.sum()),
    "constant_pad_nd": lambda torch, x, y: torch.nn.functional.pad(x, (1, -1, 0, 2), value=3.0),
    "segment_reduce": lambda torch, x, y: sum(
        torch.segment_reduce(x, how, lengths=torch.tensor([1, 2]), initial=0.5)
        for how in ("sum", "mean", "max", "min", "prod")
    ),
    "_embedding_bag": lambda torch, x, y: sum(
        torch.nn.functional.embedding_bag(
            torch.tensor([0, 2, 1, 1]), x, torch.tensor([0, 3]), mode=how, padding_idx=2
        )
        for how in ("sum", "mean", "max")
    ),
    "_embedding_bag_forward_only": lambda torch, x, y: torch.ops.aten._embedding_bag_forward_only(
        x.detach(), torch.tensor([0, 2, 1]), torch.tensor([0, 1])
    )[0],
}


def _image(x: Any, *shape: int) -> Any:
    """So many different numbers, made of x."""
    import torch

    steps = torch.arange(int(np.prod(shape)), dtype=x.dtype).reshape(shape)
    return torch.sin(7 * steps) * x[0, 0] + torch.cos(3 * steps) * x[1, 1]


WINDOWS: dict[str, Function] = {
    "convolution": lambda torch, x, y: [
        torch.nn.functional.conv1d(
            _image(x, 2, 6), _image(y, 4, 1, 3), y[0, :1].expand(4), groups=2
        ),
        torch.nn.functional.conv2d(
            _image(x, 1, 2, 5, 4), _image(y, 3, 2, 2, 3), None, (2, 1), 1, (2, 1)
        ),
        torch.nn.functional.conv3d(
            _image(x, 1, 2, 3, 4, 3), _image(y, 2, 1, 2, 2, 2), None, 1, 1, 1, 2
        ),
        torch.nn.functional.conv_transpose1d(
            _image(x, 1, 2, 3), _image(y, 2, 2, 3), None, 2, 1, 1, 2, 2
        ),
        torch.nn.functional.conv_transpose2d(_image(x, 1, 2, 3, 2), _image(y, 2, 1, 2, 2), None, 2),
        torch.nn.functional.conv_transpose2d(
            _image(x, 1, 1, 2, 2), _image(y, 1, 1, 2, 2), None, 1, 0, 1, 1, 2
        ),
        torch.nn.functional.conv_transpose3d(_image(x, 1, 1, 2, 2, 2), _image(y, 1, 2, 2, 1, 2)),
    ],
    "max_pool2d_with_indices": lambda torch, x, y: [
        torch.nn.functional.max_pool2d(_image(x, 1, 2, 5, 4), 2),
        torch.nn.functional.max_pool2d(_image(x, 2, 5, 5), 3, 2, 1, 2, True),
    ],
    "max_pool3d_with_indices": lambda torch, x, y: torch.nn.functional.max_pool3d(
        _image(x, 1, 3, 4, 4), (1, 2, 3), 1, (0, 1, 1)
    ),
    "avg_pool2d": lambda torch, x, y: [
        torch.nn.functional.avg_pool2d(_image(x, 1, 2, 5, 4), 2, 2, 1),
        torch.nn.functional.avg_pool2d(_image(x, 2, 5, 5), 2, 2, 1, True),
        torch.nn.functional.avg_pool2d(_image(x, 2, 5, 5), 2, 2, 1, True, False),
        torch.nn.functional.avg_pool2d(_image(x, 2, 5, 5), 2, divisor_override=3),
    ],
    "avg_pool3d": lambda torch, x, y: torch.nn.functional.avg_pool3d(
        _image(x, 1, 3, 4, 4), 2, 1, 1
    ),
    "_adaptive_avg_pool2d": lambda torch, x, y: torch.nn.functional.adaptive_avg_pool2d(
        _image(x, 2, 5, 4), (3, 2)
    ),
    "_adaptive_avg_pool3d": lambda torch, x, y: torch.nn.functional.adaptive_avg_pool3d(
        _image(x, 1, 3, 4, 2), (2, 3, 2)
    ),
    "adaptive_max_pool2d": lambda torch, x, y: torch.nn.functional.adaptive_max_pool2d(
        _image(x, 2, 5, 4), (3, 2)
    ),
    "adaptive_max_pool3d": lambda torch, x, y: torch.nn.functional.adaptive_max_pool3d(
        _image(x, 1, 3, 4, 2), (2, 3, 2)
    ),
    "fractional_max_pool2d": lambda torch, x, y: torch.nn.functional.fractional_max_pool2d(
        _image(x, 1, 2, 5, 4), 2, (3, 2)
    ),
    "fractional_max_pool3d": lambda torch, x, y: torch.nn.functional.fractional_max_pool3d(
        _image(x, 1, 4, 5, 4), 2, (2, 3, 2)
    ),
}
LOSSES: dict[str, Function] = {
    "binary_cross_entropy": lambda torch, x, y: torch.nn.functional.binary_cross_entropy(
        x.sigmoid(), y.sigmoid(), reduction="sum"
    ),
    "binary_cross_entropy_with_logits": lambda torch, x, y: (
        torch.nn.functional.binary_cross_entropy_with_logits(x, y, pos_weight=y[0].detach())
    ),
    "mse_loss": lambda torch, x, y: torch.nn.functional.mse_loss(x, y),
    "huber_loss": lambda torch, x, y: torch.nn.functional.huber_loss(x, y, "sum", 0.4),
    "smooth_l1_loss": lambda torch, x, y: torch.nn.functional.smooth_l1_loss(x, y, beta=0.4),
    "nll_loss_forward": lambda torch, x, y: [
        torch.nn.functional.nll_loss(
            x, torch.tensor([0, 2, 1]), y[0].detach().abs(), ignore_index=2
        ),
        torch.nn.functional.nll_loss(x, torch.tensor([0, 2, 1]), reduction="none"),
        torch.nn.functional.nll_loss(x[0], torch.tensor(1), reduction="sum"),
    ],
    "nll_loss2d_forward": lambda torch, x, y: torch.nn.functional.nll_loss(
        _image(x, 1, 3, 1, 2), torch.tensor([[[2, 1]]]), y[0].detach().abs()
    ),
    "_ctc_loss": lambda torch, x, y: [
        torch.nn.functional.ctc_loss(
            _image(x, 5, 2, 4).log_softmax(2), torch.tensor(targets), (5, 4), (2, 1), blank=blank
        )
        for targets, blank in (([[1, 1], [2, 0]], 0), ([0, 1, 2], 3))
    ],
}
NORMALISATION: dict[str, Function] = {
    "native_layer_norm": lambda torch, x, y: torch.nn.functional.layer_norm(x, (3,), y[0], y[1]),
    "native_batch_norm": lambda torch, x, y: [
        torch.nn.functional.batch_norm(_image(x, 2, 3, 2), None, None, y[0], y[1], True),
        torch.nn.functional.batch_norm(
            _image(x, 2, 3, 2), x[0].detach(), x[1].detach().abs(), y[0]
        ),
    ],
    "native_group_norm": lambda torch, x, y: torch.nn.functional.group_norm(
        _image(x, 2, 4, 3), 2, _image(y, 4), _image(y, 4)
    ),
}
MATRICES: dict[str, Function] = {
    "addmm": lambda torch, x, y: torch.addmm(x, x, y, beta=2, alpha=0.5),
    "addmv": lambda torch, x, y: torch.addmv(x[0], x, y[0]),
    "baddbmm": lambda torch, x, y: torch.baddbmm(x[None], x[None], y[None]),
    "addbmm": lambda torch, x, y: torch.addbmm(x, torch.stack((x, y)), torch.stack((y, x)), beta=3),
    "addr": lambda torch, x, y: torch.addr(x, x[0], y[0], alpha=2),
    "dot": lambda torch, x, y: torch.dot(x[0], y[0]),
    "vdot": lambda torch, x, y: torch.vdot(x[0], y[0]),
    "_trilinear": lambda torch, x, y: torch.nn.functional.bilinear(
        x, y, _image(x, 2, 3, 3), y[0, :2]
    ),
    "cholesky": lambda torch, x, y: torch.cholesky(x @ x.T + torch.eye(3), upper=True),
    "linalg_cholesky_ex": lambda torch, x, y: torch.linalg.cholesky(
        x @ x.T + torch.eye(3), upper=True
    ),
    "cholesky_solve": lambda torch, x, y: torch.cholesky_solve(y, x.tril()),
    "cholesky_inverse": lambda torch, x, y: torch.cholesky_inverse(x.triu(), upper=True),
    "linalg_inv_ex": lambda torch, x, y: torch.linalg.inv(x),
    "linalg_solve_triangular": lambda torch, x, y: [
        torch.linalg.solve_triangular(x, y, upper=True, left=False),
        torch.linalg.solve_triangular(x, y, upper=False, unitriangular=True),
    ],
    "triangular_solve": lambda torch, x, y: torch.triangular_solve(y, x, transpose=True)[0],
    "linalg_lu_factor_ex": lambda torch, x, y: [
        torch.linalg.lu_factor(x)[0],
        torch.linalg.lu_factor(x[:2])[0],
        torch.linalg.lu_factor(_image(x, 2, 3, 2))[0],
    ],
    "lu_unpack": lambda torch, x, y: list(torch.lu_unpack(*torch.linalg.lu_factor(x)))[1:],
    "linalg_lu": lambda torch, x, y: list(torch.linalg.lu(x))[1:],
    "linalg_lu_solve": lambda torch, x, y: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(x), y, adjoint=True
    ),
    "_linalg_solve_ex": lambda torch, x, y: [
        torch.linalg.solve(x, y[0]),
        torch.linalg.solve(torch.stack((x, y)), x, left=False),
    ],
    "_linalg_det": lambda torch, x, y: torch.linalg.det(x),
    "_linalg_slogdet": lambda torch, x, y: torch.linalg.slogdet(x)[1],
    "linalg_lstsq": lambda torch, x, y: [
        torch.linalg.lstsq(x[:, :2], y)[0],
        torch.linalg.lstsq(x[:2], y[:2])[0],
    ],
    "linalg_pinv": lambda torch, x, y: torch.linalg.pinv(x[:, :2]) + torch.linalg.pinv(x[:2].T),
    "linalg_qr": lambda torch, x, y: [*torch.linalg.qr(x[:, :2]), *torch.linalg.qr(x[:2])],
    "linalg_householder_product": lambda torch, x, y: torch.linalg.householder_product(x, y[0]),
    "ormqr": lambda torch, x, y: [
        torch.ormqr(x, y[0], y),
        torch.ormqr(x, y[0], y, left=False, transpose=True),
    ],
}
FOURIER: dict[str, Function] = {
    "_fft_r2c": lambda torch, x, y: [
        torch.view_as_real(torch.fft.rfft(_image(x, 2, 5), norm="ortho")),
        torch.fft.fft(_image(x, 8)).imag,
        torch.fft.rfftn(_image(x, 3, 2, 4), dim=(2, 0)).abs(),
    ],
    "_fft_c2c": lambda torch, x, y: [
        torch.fft.fft2(torch.complex(x, y)).real,
        torch.fft.ifftn(torch.complex(_image(x, 4, 6), _image(y, 4, 6)), norm="ortho").imag,
    ],
    "_fft_c2r": lambda torch, x, y: [
        torch.fft.irfft(torch.complex(x, y), n=5),
        torch.fft.hfft(torch.complex(x, y), n=4),
        torch.fft.irfft2(torch.complex(x, y)),
    ],
    "complex": lambda torch, x, y: [
        (torch.complex(x, y[0]) * torch.complex(y, x).conj()).real,
        torch.polar(x, y).imag,
        (torch.complex(x, y).exp() / torch.complex(y, x + 3)).abs(),
        torch.complex(x, y)[1:].t().reshape(-1).sum().real,
    ],
}
WITHOUT_ENCLOSURE = {"_linalg_svd", "_linalg_eigh"}
"""Whose rows balls do not enclose."""

EXAMPLES = {
    **ELEMENT_BY_ELEMENT,
    **REDUCTIONS,
    **INDEXING,
    **WINDOWS,
    **NORMALISATION,
    **LOSSES,
    **MATRICES,
    **FOURIER,
}


@pytest.fixture
def reached(engine_called: Callable[[str], Engine]) -> Callable[[Function], set[str]]:
    """reached(function): the kernels that it ran. Each is right."""
    engine_called("torch")
    import torch

    from gradcheck_cli.engines.torch.recorder import TorchRecorder

    def reach(function: Function) -> set[str]:
        recorder = TorchRecorder(composed=True)
        draw = np.random.default_rng(7)
        x, y = (torch.tensor(draw.normal(size=(3, 3)), requires_grad=True) for _ in range(2))
        with recorder.recording():
            function(torch, recorder.watch(x), recorder.watch(y))
        execution, numbers, names = recorder.execution, Numbers(FIRST_BITS), set()
        for step in execution.steps:
            if all(execution.slots[slot].format is None for slot in step.results):
                continue
            assert step.exact is not None, step.name
            natives = [execution.slots[slot].native for slot in step.args]
            given = [
                x if isinstance(x, (bool, int, float)) else numbers.lift(execution.values(slot))
                for x, slot in zip(natives, step.args, strict=True)
            ]
            with precision(FIRST_BITS):
                found = step.exact(given)
            for value, slot in zip(found, step.results, strict=True):
                np.testing.assert_allclose(
                    to_float(value),
                    execution.values(slot),
                    rtol=1e-9,
                    atol=1e-12,
                    err_msg=step.name,
                )
            names.add(step.name.removeprefix("aten.").split(".")[0].removesuffix("_"))
        return names

    return reach


def test_kernels_are_what_aten_computes(reached: Callable[[Function], set[str]]) -> None:
    def check(name: str) -> None:
        assert name in reached(EXAMPLES[name])

    every(EXAMPLES, check)


def test_every_kernel_has_an_example() -> None:
    """Elementwise rows and derivatives are tried through the rows of the op table."""
    by_rows = {*ELEMENTWISE, *DERIVATIVES} - ELEMENT_BY_ELEMENT.keys()
    assert {*KERNELS, *CHOSEN} - by_rows - WITHOUT_ENCLOSURE == EXAMPLES.keys()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda torch, x, y: torch.linalg.lstsq(torch.outer(x[0], y[0]), x[0][:, None]).solution,
            "of full rank",
        ),
        (
            lambda torch, x, y: torch.linalg.pinv(torch.outer(x[0], y[0]), atol=0.1),
            "only the usual bound",
        ),
    ],
)
def test_what_of_a_matrix_without_full_rank_has_no_kernel(
    function: Function, words: str, reached: Callable[[Function], set[str]]
) -> None:
    with pytest.raises(TypeError, match=words):
        reached(function)
