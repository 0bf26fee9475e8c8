"""A model in other precisions than its own, for work whose words must be the same wherever it is done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from speech.whisper.profile import Precision, proven
from workers.backend import Backend
from workers.device import Device
from workers.errors import InputInvalid
from workers.pool import Pool

log = logging.getLogger(__name__)


class Replicas:
    """`make` gives a backend of the model by the name it is to have on its device, and its precision.

    There are as many as are asked for and proven, each loaded once and kept. Thread-safe.
    """

    def __init__(self, model: str, devices: Sequence[Device], make: Callable[[str, Precision], Backend]) -> None:
        self._model, self._devices, self._make = model, devices, make
        self._pools: dict[str, Pool] = {}
        self._lock = threading.Lock()

    def pool(self, precision: str) -> Pool:
        """Loaded now if need be, which takes seconds; live streams go on meanwhile.

        Raises InputInvalid (param "model", so that another worker is tried) for one that these devices cannot have.
        """
        with self._lock:
            if precision not in self._pools:
                self._pools[precision] = self._load(precision)
            return self._pools[precision]

    def _load(self, precision: str) -> Pool:
        known = {str(one): one for one in proven(self._devices[0].torch_device)}
        if precision not in known:
            there_is = ", ".join(known)
            raise InputInvalid(
                f"{self._model} cannot run in {precision}, as others have it, here; there is {there_is}", param="model"
            )
        log.info("%s: loading it in %s as well, which is what is asked for", self._model, precision)
        name = f"{self._model} in {precision}"
        try:
            for device in self._devices:
                if not device.serves(name):  # else it was there before one of the others failed
                    device.add(self._make(name, known[precision]))
        except (ValueError, RuntimeError) as error:
            raise InputInvalid(f"{self._model} cannot be loaded in {precision}: {error}", param="model") from error
        return Pool(name, self._devices)
