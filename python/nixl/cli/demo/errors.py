"""The two ways in which the demo ends without a result; each text is one line for the user."""


class Refused(Exception):
    """What was asked for cannot be done with this input or on this machine: exit code 2."""


class Failed(Exception):
    """Something broke while the work was under way, or the bytes are wrong: exit code 1."""
