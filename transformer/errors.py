"""UserError: a mistake of the user's, which launch.py reports in one line."""


class UserError(ValueError):
    """Raised where an argument, a config value or an input file cannot work.

    Its text is one line: what was expected, what was found, and what would be right. launch.py
    prints it and exits with status 2; any other exception is a bug, printed with its traceback.
    """
