"""What several gateways keep in one Redis: live sessions that go on anywhere, and what a key has used up."""
