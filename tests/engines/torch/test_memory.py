import numpy as np
import pytest
import torch

from gradcheck_cli.domain.dtypes import ALIGNMENT
from gradcheck_cli.engines.torch.memory import LARGE, Watch, contiguous, fingerprint, laid_out


def test_layouts_hold_the_same_numbers_in_another_order() -> None:
    plain = torch.arange(6.0).reshape(2, 3)
    strides = {"contiguous": (3, 1), "transposed": (1, 2), "sliced": (7, 2), "expanded": (3, 1)}
    for layout, stride in strides.items():
        made = laid_out(torch, plain, layout)  # type: ignore[arg-type]
        assert torch.equal(made, plain)
        assert made.stride() == stride, layout
    images = torch.arange(36.0).reshape(1, 4, 3, 3)
    made = laid_out(torch, images, "transposed")
    assert torch.equal(made, images)
    assert made.stride() == (4, 1, 12, 4)
    assert made.is_contiguous(memory_format=torch.channels_last)  # of one image, no stride tells
    alike = torch.ones(2, 1) * torch.tensor([1.0, 2.0])
    assert laid_out(torch, alike, "expanded").stride() == (0, 1)
    assert laid_out(torch, torch.ones(2, 3), "expanded").stride() == (0, 0)
    assert laid_out(torch, torch.tensor(1.0), "sliced").shape == ()


def test_writes_are_seen_once_each() -> None:
    tensors = {"a": torch.ones(2), "b": torch.tensor([float("nan")]), "c": torch.ones(1)}
    watch = Watch(torch, tensors)
    assert watch.written() == ()
    tensors["a"].mul_(1)
    tensors["c"].data[0] = 2
    assert watch.written() == ("a", "c")
    assert watch.written() == ()


def test_large_tensors_are_sliced_along_rows_and_watched_without_a_copy() -> None:
    large = torch.arange(2.0**18 + 256).reshape(-1, 256)
    made = laid_out(torch, large, "sliced")
    assert made.stride() == (257, 1)
    assert torch.equal(made, large)
    across = laid_out(torch, large, "transposed")
    assert across.stride() == (1, len(large))
    assert torch.equal(across, large)
    assert across.data_ptr() % ALIGNMENT == 0
    assert contiguous(torch, across).stride() == (256, 1)
    assert torch.equal(contiguous(torch, across), large)
    assert contiguous(torch, large) is large
    watch = Watch(torch, {"a": large, "b": large.clone()})
    large.data[3, 7] += 1  # which no version counts
    assert watch.written() == ("a",)
    assert watch.written() == ()


# Fingerprints of large tensors

NUMBERS = np.random.default_rng(0).standard_normal(LARGE // 4 + 3).astype(np.float32)


def test_a_fingerprint_takes_little_memory() -> None:
    assert len(fingerprint(NUMBERS)) < NUMBERS.nbytes / 50
    assert fingerprint(NUMBERS[:100]) == NUMBERS[:100].tobytes()


@pytest.mark.parametrize("place", [0, 1, LARGE // 8, NUMBERS.size - 1])
def test_the_last_bit_of_any_number_shows(place: int) -> None:
    other = NUMBERS.copy()
    other[place] = np.nextafter(other[place], np.float32(np.inf))
    assert fingerprint(other) != fingerprint(NUMBERS)


def test_numbers_that_change_places_show() -> None:
    other = NUMBERS.copy()
    other[:64] = other[:64][::-1]
    assert fingerprint(other) != fingerprint(NUMBERS)


def test_equal_arrays_have_the_same_fingerprint() -> None:
    assert fingerprint(NUMBERS.copy()) == fingerprint(NUMBERS)
