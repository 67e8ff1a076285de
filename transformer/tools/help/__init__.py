"""Explains the keys of a config. Read config_help.py (--help: what the config files say of each),
key_names.py (what a mistyped key means).
"""
