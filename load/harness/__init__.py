"""Many clients at a service over real sockets, each of which checks what it gets: `speechlane load`."""
