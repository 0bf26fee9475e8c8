"""Models of pictures and of clips on trial: scenes with an exact checker for the small models, likeness for all."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.drawer import Drawer
from vision_text.denoise.kernels import check_kernel
from vision_text.denoise.request import Asked, Made
from vision_text.images.painter import Painter
from vision_text.scenes import clips, pictures
from vision_text.tuning import likeness
from vision_text.tuning.identity import identity_of
from vision_text.tuning.likeness import Frames
from vision_text.tuning.operations import operations
from vision_text.videos.filmer import Filmer
from workers.device import Device
from workers.errors import InputInvalid
from workers.gate.helping import answers, cancelled
from workers.gate.subject import Floats, Option, Run, Settings

KERNELS = ("math", "_native_efficient", "_native_flash", "_native_cudnn", "flash", "_flash_3", "sage", "xformers")
_STEP = 1
"""Of 255: sums in another order may tip a pixel so far."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. `scene` is what the checker wants; None for a prompt of somebody's own."""

    prompt: str
    seed: int
    scene: Any = None


class DrawingSubject(ABC):
    """`prompts` in place of scenes, for models that know more than the small ones. `steps` and `side`: of the trial,
    where not the model's own."""

    modality: str
    facade: ClassVar[type[Drawer]]

    def __init__(
        self, model: str, *, device: str = "cpu", prompts: Sequence[str] = (), steps: int | None = None,
        side: int | None = None, allow_download: bool = False,
    ) -> None:  # fmt: skip
        drawer = self.facade._start(model, [Device("tune", device)], {}, allow_download)
        self.backend: DenoiseBackend = drawer.backends[0]
        self.name, self._device, self._prompts = model, device, tuple(prompts)
        self.info = drawer.info
        self._own = steps is None, side is None
        self.steps = steps or self.info.default_steps
        self.size = (side, side) if side else self.info.default_size
        self._plain = 0.0

    def identity(self) -> Mapping[str, str]:
        steps, size = 0 if self._own[0] else self.steps, "own" if self._own[1] else f"{self.size[0]}x{self.size[1]}"
        return identity_of(self.name, self._device, steps=steps, size=size)

    def options(self) -> Sequence[Option]:
        fewer = sorted({max(2, round(self.steps * share)) for share in (0.7, 0.5, 0.3)}, reverse=True)
        on_gpu = self._device.startswith("cuda")
        return [
            *(Option("steps", steps) for steps in fewer if steps < self.steps),
            *(Option("guidance_interval", (0.0, stop)) for stop in (0.8, 0.6)),
            *(Option("step_cache", ("first_block", threshold)) for threshold in (0.05, 0.1, 0.2)),
            Option("step_cache", ("taylor", 3, 1)),
            Option("fused_norm", True),
            *([Option("compile", True)] if on_gpu else []),
            *(Option("attention", kernel) for kernel in self.kernels()),
            *(Option("precision", one) for one in ("int8", "mxfp8")),
            Option("step_cache", ("first_block", 5.0), harmful=True),
            Option("guidance_interval", (0.0, 1.01 / self.steps), harmful=True),
        ]

    def kernels(self) -> list[str]:
        """Those that run on this machine and give the right numbers."""
        found = []
        for kernel in KERNELS:
            try:
                check_kernel(kernel, self.backend.pipeline.transformer)
            except InputInvalid:
                continue
            found.append(kernel)
        return found

    def items(self, n: int, seed: int) -> Sequence[Wish]:
        if self._prompts:
            return [Wish(self._prompts[k % len(self._prompts)], seed * 100_003 + k) for k in range(n)]
        rng = np.random.default_rng(seed)
        return [self._wish(rng, seed * 100_003 + k) for k in range(n)]

    def run(self, settings: Settings, items: Sequence[Wish]) -> Run:
        before = self.backend.counters.copy()
        outputs, seconds = [], []
        for item in items:
            began = time.perf_counter()
            outputs.append(_made(self.backend.run(self.asked(item, settings))).frames)
            seconds.append(time.perf_counter() - began)
        if not settings and seconds:
            self._plain = float(np.median(seconds))
        return Run(outputs, np.array(seconds), _since(before, self.backend.counters))

    def probe(self, settings: Settings, item: Wish) -> Counter[str]:
        """Torch's own operations, for kernels and norms that are no modules."""
        return operations(lambda: self.backend.run(self.asked(item, settings, steps=2)))

    def score(
        self, reference: Sequence[Frames], candidate: Sequence[Frames], items: Sequence[Wish]
    ) -> Mapping[str, Floats]:
        pairs = list(zip(reference, candidate, strict=True))
        found = {name: np.array([measure(a, b) for a, b in pairs]) for name, measure in self.measures().items()}
        if items and items[0].scene is not None:
            right = [float(self.right(frames, item)) for frames, item in zip(candidate, items, strict=True)]
            found["checker"] = np.array(right)
        return found

    def measures(self) -> Mapping[str, Any]:
        """Of likeness."""
        return {"ssim": likeness.ssim, "psnr": likeness.psnr}

    def control(self, seconds_per_item: float) -> Settings | None:
        if not self._plain:
            return None
        steps = max(1, min(self.steps, round(self.steps * seconds_per_item / self._plain)))
        return {"steps": steps} if steps < self.steps else None

    def isolation(self, settings: Settings) -> list[str]:
        """Alone, among others, after one that was dropped, and beside one with other steps."""
        wishes = self.items(4, 99)
        asked = [self.asked(one, settings) for one in wishes]
        alone = [_made([answers(self.backend, [one])[0]]).frames for one in asked[:2]]
        among = [_made([one]).frames for one in answers(self.backend, asked)]
        leaks = []
        if not all(_same(a, b) for a, b in zip(alone, among, strict=False)):
            leaks.append("another picture among others than alone")
        cancelled(self.backend, asked[0], max(2, self.steps // 2))
        if not _same(_made([answers(self.backend, asked[1:2])[0]]).frames, alone[1]):
            leaks.append("another picture after a request that was dropped")
        if "steps" not in settings:
            other = self.asked(wishes[2], settings, steps=max(2, self.steps // 2))
            if not _same(_made([answers(self.backend, [asked[0], other])[0]]).frames, alone[0]):
                leaks.append("another picture beside a request with other steps")
        return leaks

    def show(self, output: Frames) -> NDArray[np.uint8]:
        """Frames side by side."""
        return np.concatenate(list(output), axis=1)

    def caption(self, item: Wish) -> str:
        return item.prompt

    def asked(self, item: Wish, settings: Settings, steps: int | None = None) -> Asked:
        """A request for it."""
        return Asked(
            item.prompt, width=self.size[0], height=self.size[1], frames=self.info.default_frames,
            steps=steps or self.steps, guidance=self.info.default_guidance, seed=item.seed, options=dict(settings),
        )  # fmt: skip

    @abstractmethod
    def _wish(self, rng: np.random.Generator, seed: int) -> Wish:
        """Something that the model was not trained on."""

    @abstractmethod
    def right(self, frames: Frames, item: Wish) -> bool:
        """Whether it is what was asked for."""


class ImageSubject(DrawingSubject):
    modality, facade = "image", Painter

    def measures(self) -> Mapping[str, Any]:
        return {**super().measures(), "ms_ssim": likeness.ms_ssim}

    def _wish(self, rng: np.random.Generator, seed: int) -> Wish:
        scene = pictures.random_scene(rng, held_out=True)
        return Wish(pictures.prompt(scene), seed, scene)

    def right(self, frames: Frames, item: Wish) -> bool:
        return pictures.check(frames[0], item.scene).all_right


class VideoSubject(DrawingSubject):
    modality, facade = "video", Filmer

    def options(self) -> Sequence[Option]:
        return [*super().options(), Option("attention_precision", "int8")]

    def measures(self) -> Mapping[str, Any]:
        return {**super().measures(), "steady": likeness.steady, "smooth": likeness.smooth}

    def _wish(self, rng: np.random.Generator, seed: int) -> Wish:
        scene = clips.random_scene(rng, held_out=True)
        return Wish(clips.prompt(scene), seed, scene)

    def right(self, frames: Frames, item: Wish) -> bool:
        return clips.check(frames, item.scene).all_right


def _made(outputs: Sequence[Any]) -> Made:
    made = outputs[-1]
    assert isinstance(made, Made)
    return made


def _since(before: Counter[str], now: Counter[str]) -> Counter[str]:
    return Counter({name: count - before[name] for name, count in now.items() if count != before[name]})


def _same(a: Frames, b: Frames) -> bool:
    return a.shape == b.shape and int(np.abs(a.astype(np.int16) - b).max()) <= _STEP
