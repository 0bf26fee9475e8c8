"""Schedulers of the library, one for each request: they count steps and remember outputs, so nobody shares one."""

from __future__ import annotations

import copy
from typing import Any

from workers.errors import InputInvalid

_FLOW: dict[str, tuple[str, dict[str, Any]]] = {
    "euler": ("FlowMatchEulerDiscreteScheduler", {}),
    "heun": ("FlowMatchHeunDiscreteScheduler", {}),
    "dpm++": ("DPMSolverMultistepScheduler", {"prediction_type": "flow_prediction", "use_flow_sigmas": True}),
    "unipc": ("UniPCMultistepScheduler", {"prediction_type": "flow_prediction", "use_flow_sigmas": True}),
}
_DIFFUSION: dict[str, tuple[str, dict[str, Any]]] = {
    "ddim": ("CogVideoXDDIMScheduler", {}),
    "dpm": ("CogVideoXDPMScheduler", {}),
}


def scheduler_for(own: Any, sampler: str) -> Any:
    """A fresh one. `own` is the model's, which stays as it is. Raises InputInvalid for one that the model's noise does
    not go with."""
    if sampler == "model":
        return copy.deepcopy(own)
    import diffusers

    family = _FLOW if "Flow" in type(own).__name__ or own.config.get("use_flow_sigmas") else _DIFFUSION
    if sampler not in family:
        raise InputInvalid(
            f"this model has no sampler {sampler}; it can be model, {', '.join(family)}", param="options.sampler"
        )
    name, settings = family[sampler]
    if family is _FLOW and name.startswith(("DPM", "UniPC")):
        settings = settings | {"flow_shift": own.config.get("shift", 1.0)}
        return getattr(diffusers, name)(num_train_timesteps=own.config.num_train_timesteps, **settings)
    kept = {key: value for key, value in own.config.items() if not key.startswith("_")}
    return getattr(diffusers, name).from_config(kept | settings)
