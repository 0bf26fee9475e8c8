"""What programs import to use a Speechlane service: `speechlane.client`. The service itself needs none of it."""
