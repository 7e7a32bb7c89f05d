"""Events in other people's formats: pure, events in and bytes out."""
