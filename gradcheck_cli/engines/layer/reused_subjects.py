"""Subjects that are used again. Examinations of one check bind the same layer to the same numbers
repeatedly, which takes longer than running a small layer."""

from __future__ import annotations

from typing import TypeVar

from gradcheck_cli.domain.dtypes import identical
from gradcheck_cli.engines.layer.framework_layer import FrameworkLayer
from gradcheck_cli.engines.layer.isolation import reusable
from gradcheck_cli.engines.layer.subject import SubjectRequest

S = TypeVar("S", bound=FrameworkLayer)


def leave(subject: FrameworkLayer) -> bool:
    """Leaves a subject to the next request for the same; returns whether that is possible."""
    subjects = reusable()
    if subjects is not None and subject not in subjects:
        subjects.append(subject)
    return subjects is not None


def take(kind: type[S], request: SubjectRequest) -> S | None:
    """A subject of this type and request that was left, reset to the state in which it was
    bound."""
    subjects = reusable() or []
    for place, subject in enumerate(subjects):
        if type(subject) is kind and _same_request(subject.request, request):
            del subjects[place]
            subject.reset_layer(request)
            return subject
    return None


def _same_request(request: SubjectRequest, other: SubjectRequest) -> bool:
    """Whether both request the same object with exactly the same numbers."""
    mine, its = request.implementation, other.implementation
    return (
        mine.live is its.live
        and mine.args is its.args
        and mine.kwargs is its.kwargs
        and _settings(request) == _settings(other)
        and request.values.keys() == other.values.keys()
        and all(identical(value, other.values[name]) for name, value in request.values.items())
    )


def _settings(request: SubjectRequest) -> tuple[object, ...]:
    return (
        *(request.dtype, request.rounding, request.seed, request.uncast, request.forward),
        *(request.data, request.domains, request.complex_inputs),
    )
