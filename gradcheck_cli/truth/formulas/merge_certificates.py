"""Merge certificates with results from other sources."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.truth.blocks import Merged
from gradcheck_cli.truth.certified.enclose import Certificate


def certified(certificate: Certificate, stated: Array) -> TruthBlock:
    """A block that is certified in every entry, without differences. `stated` is the user's custom
    gradient."""
    value, zeros = certificate.value, np.zeros(certificate.value.shape)
    return TruthBlock.of(
        value, certificate.radius, stated=stated, scale=zeros, certified=certificate.sure
    )


def as_merged(certificate: Certificate) -> Merged:
    """A certificate as a `Merged` block, to which costs of rounding can be added."""
    value = certificate.value
    smooth = np.full(value.shape, int(PointKind.SMOOTH))
    unconfirmed = np.zeros(value.shape, np.bool_)
    return Merged(value, certificate.radius, smooth, value, value, unconfirmed, "")


def overlaid(merged: Merged, certificate: Certificate) -> Merged:
    """The merged block, replaced by the certificate where it is sure."""
    found = merged.at(
        certificate.sure,
        value=certificate.value,
        error=certificate.radius,
        kind=PointKind.SMOOTH,
        lower=certificate.value,
        upper=certificate.value,
        confirmed=False,
    )
    return found if np.any(found.kind == PointKind.UNDECIDED) else replace(found, reason="")


def remembered_output(truth: Truth) -> Certificate:
    """The certificate for the value of a truth whose value is certified (`output_certified`)."""
    everywhere = np.ones(np.shape(truth.output), np.bool_)
    return Certificate(truth.output, truth.output_error, everywhere, ~everywhere, ~everywhere, "")


def certificates_in(truth: Truth) -> dict[tuple[Mode, str], Certificate]:
    """The certificates that went into a truth."""
    return {
        (cast(Mode, mode), name): Certificate(
            block.value,
            block.error,
            block.certified,
            np.zeros_like(block.certified),  # no longer needed
            truth.tied.get((mode, name), np.zeros_like(block.certified)),
            truth.uncertified.get((mode, name), ""),
        )
        for (mode, name), block in truth.blocks.items()
        if np.any(block.certified) or (mode, name) in truth.uncertified
    }
