"""What our own tests are made of, for yours: ways to cut a stream that find the bugs of cutting."""

from argstream.testing.chunking import at_every_place, chunkings, cut

__all__ = ["at_every_place", "chunkings", "cut"]
