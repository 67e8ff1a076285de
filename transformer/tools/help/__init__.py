"""Explains the keys of a config. Read config_help.py (--help, from the comments of the config
files), key_names.py (hints for mistyped keys).
"""
