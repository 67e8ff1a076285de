"""What happens to files."""


def damaged(chosen, content):
    """Cut, with other bits, with bytes behind it, or something else altogether."""
    content = bytearray(content)
    kind = chosen.choice(["cut", "flip", "flip", "append", "replace"])
    if kind == "cut":
        content = content[: chosen.randint(0, len(content))]
    elif kind == "append":
        content += chosen.randbytes(chosen.randint(1, 30))
    elif kind == "replace":
        content = bytearray(chosen.randbytes(chosen.randint(0, 60)))
    else:
        for _ in range(chosen.choice([1, 1, 2, 8]) if content else 0):
            at = chosen.choice([len(content), min(16, len(content))])  # heads are short
            content[chosen.randrange(at)] ^= 1 << chosen.randrange(8)
    return bytes(content)
