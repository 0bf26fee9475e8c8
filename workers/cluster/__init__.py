"""Devices in other processes and on other hosts, kept by Ray: placed by resources, supervised, started again.

A device there is the same `Device` as here, with its own scheduler, so batching stays where the model is. Between it
and the services that use it goes a channel of numbered messages: many tasks in a call, one call to a device and tick,
answers back in whatever order they are made. Only `ray_actor`, `ray_calls` and `fleet` know of Ray; everything else is
tried without it, on a virtual clock and over a wire that loses, repeats and reorders.
"""
