"""What stops a preparation with a message instead of a traceback."""


class PrepareError(Exception):
    """Names the file and place, the cause, and the way out."""

    exit_code = 1


class DataError(PrepareError):
    exit_code = 3


class ModelError(PrepareError):
    exit_code = 6
