"""Which of torch's operations and kernels run, how often: below modules, where a choice of kernel is to be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def operations(work: Callable[[], object]) -> Counter[str]:
    """Of the second of two runs: the first compiles, checks and warms."""
    work()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    with profile(activities=activities) as seen:
        work()
    return Counter({event.key: event.count for event in seen.key_averages()})
