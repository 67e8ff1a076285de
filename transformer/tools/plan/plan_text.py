"""Formats a plan as the table that --mode=plan logs."""


def table(values: dict, section: str = "") -> list[str]:
    """Returns the lines of a plan, or of one section; an unknown value is '-'."""
    # A section is indented by two spaces; a list, of collectives, has a line per entry.
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {line}" for line in table(value, name))]
        elif isinstance(value, list):
            rows = [", ".join(table(row)) for row in value]
            lines += [f"{name}:", *(f"  {row}" for row in rows or ["none"])]
        else:
            lines.append(f"{name} {_shown(f'{section} {name}', value)}")
    return lines


def _shown(name: str, value: object) -> str:
    """Returns a value as text, in the unit that its section and name imply."""
    # 'bytes_per_device total' is in bytes; 'run_seconds' ends like 'seconds', and so comes first.
    if value is None:
        return "-"
    if "bytes" in name or name.endswith(("sent", "memory")):
        return f"{value / 1e9:.2f} GB" if value >= 1e8 else f"{value / 1e6:.2f} MB"
    if name.endswith("run_seconds"):
        return f"{value / 3600:.2f} h"
    if name.endswith("seconds"):
        return f"{1e3 * value:.2f} ms"
    if "flops" in name:
        return f"{value:.3e}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
