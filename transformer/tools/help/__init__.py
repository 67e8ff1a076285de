"""--help of a config: its keys, and what the config files say of them. Read config_help.py."""
