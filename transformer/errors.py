"""The one error that is the user's to mend."""


class UserError(ValueError):
    """Something that was typed, or a file that was given, cannot work.

    Its text is one line: what was expected, what was found, what would be right. launch.py prints
    it and exits with status 2; every other error is ours, and is printed with its traceback.
    """
