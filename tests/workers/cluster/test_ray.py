"""Devices on a real Ray cluster of several hosts, which are all this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.workers.cluster.makers import Makes
from tests.workers.models import Diary, Job, until
from workers.backend import Done
from workers.capacity import Capacity
from workers.cluster.furnished import Plan
from workers.cluster.packing import Plain
from workers.errors import BackendDead, BackendFailed, InputInvalid, Overloaded
from workers.pool import Pool
from workers.task import Lane

pytest.importorskip("ray", reason="Ray is not installed: pip install 'speechlane[cluster]'")

from workers.cluster.fleet import Fleet, NoCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SHARE = 0.17


class Hosts:
    """A cluster whose every host has room for one device of `kind`."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.address: str = self.cluster.address

    def add(self, kind: str) -> Any:
        return self.cluster.add_node(num_cpus=0, resources={kind: 1})

    def kill(self, node: Any) -> None:
        """As when its power fails."""
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    import ray

    hosts = Hosts()
    ray.init(address=hosts.address, namespace="speechlane", log_to_driver=False)
    yield hosts
    ray.shutdown()
    hosts.cluster.shutdown()


@pytest.fixture
def open_fleet(hosts: Hosts) -> Iterator[Callable[..., Fleet]]:
    fleets: list[Fleet] = []

    def make(kind: str, makes: Makes, count: int = 1, **how: Any) -> Fleet:
        fleet = Fleet(Plan(kind, makes, {kind: 1.0}, **how), Plain(), address=hosts.address)
        fleets.append(fleet)
        fleet.open()
        fleet.wait(60.0)
        until(lambda: sum(device.ready for device in fleet.devices) == count, 60.0)
        return fleet

    yield make
    for fleet in fleets:
        fleet.close()


def test_a_host_that_dies_under_load(hosts: Hosts, open_fleet: Callable[..., Fleet]) -> None:
    nodes = [hosts.add("dies") for _ in range(2)]
    fleet = open_fleet("dies", Makes(0.02), 2)
    assert len({device.node for device in fleet.devices}) == 2, "spread over the hosts"
    pool, diary, capacity = Pool("timed", fleet.devices), Diary(), Capacity(fleet.devices)
    for device in fleet.devices:
        device.expect(SHARE)
    time.sleep(0.5)
    leases = [capacity.admit(pool, SHARE) for _ in range(8)]
    assert [capacity.streams(device) for device in fleet.devices] == [4, 4]
    assert sum(capacity.free_streams(device, SHARE) for device in fleet.devices) == 2
    tasks = []

    def say(seconds: float) -> None:
        """As many live streams."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for number, lease in enumerate(leases):
                job = Job((number, len(tasks)), costs=(1, 1, 1))
                deadline = time.monotonic() + 0.5
                tasks.append(pool.submit_task(job, lane=Lane.FINAL, deadline=deadline, sink=diary, lease=lease))
            time.sleep(0.1)

    say(1.0)
    killed = next(node for node in nodes if node.node_id[:8] in fleet.devices[0].node)
    began = time.monotonic()
    hosts.kill(killed)
    until(lambda: not fleet.devices[0].ready, 10.0)
    noticed = time.monotonic() - began
    say(1.0)
    until(lambda: all(diary.end_of(task) for task in tasks), 60.0)
    for task in tasks:
        assert diary.outputs_of(task) == [f"{task.payload.name}.{step}" for step in range(3)]
    assert noticed < 7.0
    assert [capacity.streams(device) for device in fleet.devices] == [0, 8], "the sessions went along"
    assert sum(capacity.free_streams(device, SHARE) for device in fleet.devices) == 0
    with pytest.raises(Overloaded):
        capacity.admit(pool, SHARE)
    hosts.add("dies")
    until(lambda: fleet.devices[0].ready, 60.0)
    until(lambda: capacity.free_streams(fleet.devices[0], SHARE) == 5, 10.0)
    lease = capacity.admit(pool, SHARE)
    assert lease.device is fleet.devices[0]
    task = pool.submit_task(Job("back"), lane=Lane.FINAL, deadline=time.monotonic() + 1, sink=diary, lease=lease)
    until(lambda: diary.end_of(task), 10.0)
    assert diary.end_of(task) == Done("back.0")


def test_a_process_that_dies_is_started_again_and_what_kills_it_is_not_tried_for_ever(
    hosts: Hosts, open_fleet: Callable[..., Fleet]
) -> None:
    hosts.add("crash")
    fleet = open_fleet("crash", Makes(0.01))
    (device,), diary = fleet.devices, Diary()
    pool, pid = Pool("timed", fleet.devices), device.facts["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not device.ready, 10.0)
    waiting = pool.submit_task(Job("waits"), lane=Lane.FINAL, deadline=time.monotonic() + 9, sink=diary)
    until(lambda: device.ready, 30.0)
    assert device.facts["pid"] != pid and device.losses == 1
    until(lambda: diary.end_of(waiting), 10.0)
    assert diary.end_of(waiting) == Done("waits.0")
    poison = pool.submit_task(Job("x", fault="exit"), lane=Lane.FINAL, deadline=time.monotonic() + 9, sink=diary)
    until(lambda: diary.end_of(poison), 60.0)
    assert isinstance(diary.end_of(poison), BackendDead)
    until(lambda: device.ready, 30.0)


def test_a_host_that_comes_later_is_used(hosts: Hosts, open_fleet: Callable[..., Fleet]) -> None:
    hosts.add("later")
    fleet = open_fleet("later", Makes(0.01))
    hosts.add("later")
    until(lambda: len(fleet.devices) == 2 and all(device.ready for device in fleet.devices), 60.0)


async def _answers(fleet: Fleet) -> None:
    pool = Pool("timed", fleet.devices)
    handle = pool.submit(Job("a", costs=(1, 1, 1)), lane=Lane.FINAL, deadline=time.monotonic() + 1)
    assert [output async for output in handle] == ["a.0", "a.1", "a.2"]
    for fault, kind in (("open", InputInvalid), ("raise", BackendFailed)):
        with pytest.raises(kind):
            await pool.submit(Job("b", fault=fault), lane=Lane.FINAL, deadline=time.monotonic() + 1).result()


def test_two_gateways_on_one_device(hosts: Hosts, open_fleet: Callable[..., Fleet]) -> None:
    hosts.add("shared")
    one, two = open_fleet("shared", Makes(0.01)), open_fleet("shared", Makes(0.01))
    assert one.devices[0].facts["pid"] == two.devices[0].facts["pid"]
    asyncio.run(_answers(one))
    asyncio.run(_answers(two))
    capacities = [(Capacity(fleet.devices), Pool("timed", fleet.devices)) for fleet in (one, two)]
    for fleet in (one, two):
        fleet.devices[0].expect(SHARE)
    leases = []
    for number in range(40):
        capacity, pool = capacities[number % 2]
        with suppress(Overloaded):
            leases.append(capacity.admit(pool, SHARE))
        time.sleep(0.05)
    assert len(leases) == 5, "together as many as one alone could have"


def test_a_device_that_nobody_uses_gives_its_place_back(hosts: Hosts, open_fleet: Callable[..., Fleet]) -> None:
    import ray

    hosts.add("brief")
    fleet = open_fleet("brief", Makes(0.01), linger=1.0)
    name = fleet.devices[0].name
    fleet.close()

    def gone() -> bool:
        try:
            ray.get_actor(name)
        except ValueError:
            return True
        return False

    until(gone, 30.0)


def test_a_device_that_cannot_be_started_says_why(hosts: Hosts) -> None:
    hosts.add("broken")
    fleet = Fleet(Plan("broken", Makes(0.01, broken="the model is not here"), {"broken": 1.0}), Plain(),
                  address=hosts.address)  # fmt: skip
    try:
        fleet.open()
        with pytest.raises(NoCluster, match="the model is not here"):
            fleet.wait(60.0)
    finally:
        fleet.close()


def test_no_host_with_room(hosts: Hosts) -> None:
    fleet = Fleet(Plan("none", Makes(0.01), {"none": 1.0}), Plain(), address=hosts.address)
    try:
        fleet.open()
        with pytest.raises(NoCluster, match="no host has room"):
            fleet.wait(2.0)
    finally:
        fleet.close()
