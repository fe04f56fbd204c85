"""What the core does not need, one folder each. An extension knows the core, and no other extension."""
