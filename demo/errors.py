"""What stops the demo with a message instead of a traceback."""


class DemoError(Exception):
    """Names what failed, why, and the way out."""
