"""A device's room among several gateways: never promised twice, and all of it to be had."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from tests.workers.cluster.net import Net, Seat, reached
from tests.workers.models import Timed, VirtualClock
from workers.capacity import Capacity, Lease
from workers.cluster.escrow import Escrow
from workers.cluster.messages import Grant, Report
from workers.cluster.remote import RemoteDevice
from workers.errors import BackendDead, Overloaded
from workers.pool import Pool

LIMIT, SHARE = 0.85, 0.17  # five sessions


class Gateways:
    """As many over one set of devices."""

    def __init__(self, count: int, devices: int = 1, **how: float) -> None:
        self.net = Net()
        self.seats = [Seat(self.net, Timed(), name=f"d{n}", limit=LIMIT) for n in range(devices)]
        self.remotes: list[list[RemoteDevice]] = []
        self.wires = []
        self.pools: list[Pool] = []
        self.capacities: list[Capacity] = []
        for number in range(count):
            courier = self.net.gateway()
            reach = [
                reached(self.net, seat, gateway=f"g{number}", courier=courier, seed=number, **how)
                for seat in self.seats
            ]
            remotes = [remote for remote, _ in reach]
            self.wires.append([wire for _, wire in reach])
            self.remotes.append(remotes)
            self.pools.append(Pool("timed", remotes))
            self.capacities.append(Capacity(remotes, LIMIT))

    def expect(self, share: float = SHARE) -> None:
        for remotes in self.remotes:
            for remote in remotes:
                remote.expect(share)
        self.net.run(2.0)

    def admit(self, gateway: int, share: float = SHARE) -> Lease | None:
        with suppress(Overloaded, BackendDead):
            return self.capacities[gateway].admit(self.pools[gateway], share)
        return None

    def held(self, device: int = 0) -> float:
        """By all gateways, as they see it themselves."""
        return sum(
            capacity.reserved(remotes[device]) for capacity, remotes in zip(self.capacities, self.remotes, strict=True)
        )


@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_of_the_room_can_be_had_and_no_more(count: int) -> None:
    some = Gateways(count)
    some.expect()
    leases = []
    for n in range(40):
        lease = some.admit(n % count)
        leases += [lease] if lease else []
        some.net.run(0.2)
    assert len(leases) == 5
    assert some.held() == pytest.approx(LIMIT)
    leases.pop().release()
    some.net.run(0.2)
    others = [some.admit(n) for n in range(count)]
    assert sum(one is not None for one in others) <= 1, "one place was given back"


def test_one_gateway_gets_everything_when_nobody_else_wants_it() -> None:
    some = Gateways(4)
    some.expect()
    got = 0
    for _ in range(40):
        got += some.admit(2) is not None
        some.net.run(0.1)
    assert got == 5


def test_a_rush_to_one_gateway_takes_what_is_granted_and_then_the_rest() -> None:
    some = Gateways(2, devices=4)
    some.expect()
    at_once = sum(some.admit(0) is not None for _ in range(20))
    assert 8 <= at_once <= 12, "half of twenty places, and maybe the odd ones"
    some.net.run(0.1)
    assert at_once + sum(some.admit(0) is not None for _ in range(20)) >= 14
    for _ in range(20):
        some.net.run(0.1)
        some.admit(0)
    assert sum(some.capacities[0].streams(remote) for remote in some.remotes[0]) == 20


def test_a_refusal_is_soon_made_good() -> None:
    some = Gateways(10)
    some.expect()
    refused = next(n for n in range(10) if not some.remotes[n][0].allowed(1.0))
    assert some.admit(refused) is None
    some.net.run(0.1)
    assert some.admit(refused) is not None, "within some round trips"


def test_without_room_at_the_device_nothing_is_asked_for() -> None:
    some = Gateways(2)
    some.expect()
    for _ in range(30):
        some.admit(0)
        some.net.run(0.1)
    posts = some.wires[1][0].posts
    for _ in range(20):
        assert some.admit(1) is None
    some.net.run(0.2)
    assert some.wires[1][0].posts - posts <= 1


def test_a_device_with_nothing_to_do_takes_one_session_of_any_share() -> None:
    some = Gateways(3)
    some.expect(1.5)
    leases = []
    for _ in range(6):
        leases += [lease for n in range(3) if (lease := some.admit(n, 1.5))]
        some.net.run(0.1)
    assert len(leases) == 1
    leases[0].release()
    for _ in range(10):
        some.net.run(0.2)
        leases += [lease for n in range(3) if (lease := some.admit(n, 1.5))]
    assert len(leases) == 2


@pytest.mark.parametrize("lose", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(3))
def test_the_limit_holds_at_every_moment(seed: int, lose: float) -> None:
    some = Gateways(4, devices=2, delay=0.01, spread=0.02, lose=lose, twice=lose)
    dice = random.Random(seed)
    leases: list[Lease] = []
    most = 0.0
    for _ in range(300):
        share = dice.choice((0.05, 0.17, 0.3))
        if leases and dice.random() < 0.3:
            leases.pop(dice.randrange(len(leases))).release()
        elif lease := some.admit(dice.randrange(4), share):
            leases.append(lease)
        some.net.run(dice.random() * 0.2)
        for device in range(2):
            assert some.held(device) <= LIMIT + 1e-6
            most = max(most, some.held(device))
    assert most > (0.4 if lose else 0.8), "and most of it is used"


def test_live_lanes_that_take_more_than_was_reserved_are_noticed() -> None:
    some = Gateways(1)
    some.expect()
    device = some.seats[0].device
    for n in range(100):
        device.loop.ledger.step(0.1, 1.0, 1, device.clock() + n * 0.1)
    some.net.run(10.0)
    assert some.remotes[0][0].allowed(1.0) < LIMIT / 2


def test_a_lost_device_moves_its_sessions_and_takes_its_room_along() -> None:
    some = Gateways(1, devices=2)
    some.expect()
    leases = [some.admit(0) for _ in range(4)]
    (one, two), capacity = some.remotes[0], some.capacities[0]
    assert [capacity.streams(one), capacity.streams(two)] == [2, 2]
    free = capacity.free_streams(one, SHARE) + capacity.free_streams(two, SHARE)
    some.seats[0].kill()
    some.net.run(1.0)
    assert all(lease is not None and lease.device is two for lease in leases)
    assert (capacity.streams(one), capacity.streams(two), capacity.free_streams(one, SHARE)) == (0, 4, 0)
    assert free == 6 and capacity.free_streams(two, SHARE) == 1
    assert some.admit(0) is not None and some.admit(0) is None
    some.seats[1].kill()
    some.net.run(1.0)
    with pytest.raises(BackendDead):
        capacity.admit(some.pools[0], SHARE)
    some.seats[0].start()
    some.net.run(2.0)
    assert capacity.streams(one) == 5, "they go where there is a device"
    assert some.admit(0) is None
    some.seats[1].start()
    some.net.run(2.0)
    assert some.admit(0) is not None and capacity.streams(two) == 1


def test_admitted_sessions_stay_when_there_is_too_little_room_for_them() -> None:
    some = Gateways(1, devices=2)
    some.expect()
    leases = [lease for _ in range(10) if (lease := some.admit(0))]
    assert len(leases) == 10
    some.seats[1].kill()
    some.net.run(1.0)
    one = some.remotes[0][0]
    assert some.capacities[0].streams(one) == 10 and some.admit(0) is None
    for lease in leases[:6]:
        lease.release()
    some.net.run(1.0)
    assert some.capacities[0].streams(one) == 4 and some.admit(0) is not None


def test_a_lowered_grant_is_nobody_elses_before_it_is_given_up() -> None:
    clock = VirtualClock()
    escrow = Escrow("d", 1.0, clock, lambda held: 0.0)
    told: dict[str, list[Grant]] = {"a": [], "b": []}
    empty = Report(0.0, {}, 0.0, 0, 0, 0.0)
    escrow.enter("a", empty, told["a"].append)
    assert told["a"] == [Grant(1, 1.0)]
    escrow.enter("b", empty, told["b"].append)
    assert told["a"][-1] == Grant(2, 0.5) and not told["b"], "nothing to give before a has answered"
    clock.sleep(1.0)
    escrow.report("a", Report(0.0, {}, 0.1, 0, 1, 1.0))
    assert not told["b"], "that was said before a heard of it"
    clock.sleep(1.0)
    escrow.report("a", Report(0.0, {}, 0.1, 0, 2, 0.5))
    assert told["b"] == [Grant(1, 0.5)]
    escrow.leave("a")
    assert told["b"][-1].share == pytest.approx(1.0)
