"""An agent around the stream: tools are functions, every argument is visible, a person is asked."""

__all__: list[str] = []
