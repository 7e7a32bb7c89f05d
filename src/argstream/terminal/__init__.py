"""What a person sees in a terminal: an agent that writes, live."""

__all__: list[str] = []
