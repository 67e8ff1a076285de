"""Tables of keys: a line has a key's default value, its rule and, behind it, what it means.

    "model.d_model": 512,  # a key without a rule
    "train.num_steps": [100_000, "at least 1"],  # [default, rule]
    "evaluate.weights": ["average", ("average", "best", "latest")],  # the values it can have
    "decode.method": ["beam", "a name in registry.METHODS"],  # of transformer/registry.py

A key is set, and named in messages, as config.train.num_steps. Its type is that of the default. A
rule is words, such as "at least 0 and below 1", or the tuple of the allowed values. All values are
checked before a run starts (transformer/workdir/key_tables.py), and --help shows the table.
"""

from ml_collections import ConfigDict


def make(table: dict) -> ConfigDict:
    """Returns the config that a table makes: {"model.d_ff": 4} is {"model": {"d_ff": 4}}."""
    config = {}
    for key, default in table.items():
        *groups, name = key.split(".")
        group = config
        for group_name in groups:
            group = group.setdefault(group_name, {})
        group[name] = default[0] if isinstance(default, list) else default
    return ConfigDict(config)
