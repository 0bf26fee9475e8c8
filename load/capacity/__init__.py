"""How many clients a service can have, found by trying, kept where its admission reads it: `speechlane capacity`."""
