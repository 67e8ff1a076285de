"""A page as a reader sees it, in plain text, held equal to a file in golden/ beside its test.

Delete a golden file, and its test writes the file anew and fails once: read the difference.
"""

import html.parser
import json
import pathlib
import re

import pytest

STARTS = {
    **{"h1": "\n# ", "h2": "\n\n## ", "h3": "\n### ", "p": "\n", "caption": "\n", "tr": "\n"},
    **{"dt": "\n", "dd": ": ", "summary": "\n> ", "figcaption": "\nFIGURE ", "b": "*", "a": "\n["},
    **{"th": "| ", "td": "| ", "mark": "_", "code": "`"},
}
ENDS = {"b": "*", "th": " ", "td": " ", "a": "]", "mark": "_", "code": "`"}
UNREAD = {"style", "title", "svg", "option", "label", "noscript", "script"}
SHOWN = 12  # rows of a table, or values of a plot


class Reader(html.parser.HTMLParser):
    """Collects a page's text, its elements as (tag, attributes), and the JSON in its scripts."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.elements, self.data, self.unread = [], [], {}, ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if not self.unread and tag in UNREAD:
            self.unread = tag
        elif not self.unread:
            is_plot = ("class", "plot") in attributes
            self.parts.append(f"\n@{dict(attributes)['id']}@" if is_plot else STARTS.get(tag, ""))

    def handle_endtag(self, tag):
        if not self.unread:
            self.parts.append(ENDS.get(tag, ""))
        elif tag == self.unread:
            self.unread = ""

    def handle_data(self, data):
        _, attributes = self.elements[-1] if self.elements else ("", {})
        if not self.unread:
            self.parts.append(re.sub(r"\s+", " ", data))
        elif attributes.get("type") == "application/json":
            name = attributes.get("id", f"picture{len(self.data)}")
            self.data[name] = json.loads(data)
            self.parts.append(f"\n@{name}@")


def read(page, but=""):
    """Returns what a reader sees of a page: its texts, tables, and the data of its pictures.

    The plots of the section `but`, such as one whose numbers are a model's, are left out.
    """
    reader = Reader(page)
    seen = {f"plot{i}": plot(spec) for i, spec in enumerate(reader.data.get("plots", []))}
    seen |= {name: picture(x) for name, x in reader.data.items() if name.startswith("picture")}
    text = re.sub("@([a-z]+[0-9]*)@", lambda m: seen.get(m[1], ""), "".join(reader.parts))
    lines, rows = [], 0
    for line in text.splitlines():
        line = " ".join(line.split())
        rows = rows + 1 if line.startswith("|") else 0
        if rows == SHOWN + 1:
            lines.append("| ...")
        elif rows <= SHOWN and (line or lines[-1:] != [""]):
            lines.append(line[:400])
    text = "\n".join(lines).strip() + "\n"
    if but:
        of_a_model = rf"(## {but}\n(?:.|\n)*?)(?=\n## )"
        without = lambda m: re.sub(r"FIGURE(?:.|\n)*?\| \.\.\.", "FIGURE ...", m[1])
        text = re.sub(of_a_model, without, text)
    return text


def plot(spec):
    """Returns the marks of a plot, with the fields and scales of their channels, and its values."""
    lines = []
    for layer in spec.get("layer", [spec]):
        mark = layer["mark"]["type"] if isinstance(layer["mark"], dict) else layer["mark"]
        channels = {**spec.get("encoding", {}), **layer["encoding"]}
        fields = {name: x for name, x in channels.items() if "field" in x}
        names = [f"{name} {x['field']}" for name, x in fields.items()]
        scales = {
            json.dumps(x["scale"], ensure_ascii=False) for x in fields.values() if "scale" in x
        }
        lines.append(" ".join([f"{mark}:", ", ".join(names), *sorted(scales)]))
    rows, short = spec["data"]["values"], lambda x: f"{x:.4g}" if isinstance(x, float) else x
    lines += [", ".join(f"{key} {short(x)}" for key, x in row.items()) for row in rows[:SHOWN]]
    return "\n".join([*lines, f"values: {len(rows)}"])


def picture(data):
    """Returns the words between which a picture of attention draws its lines."""
    lines = []
    for example in data:
        lines.append(f"SENTENCE {example['title']}")
        for m in example["maps"]:
            lines.append(f"{m['name']}, layers: {len(m['weights'])}, first: {m['first']}")
            lines += [
                f"{m[x]}: {' '.join(m[y])}" for x, y in (("left", "queries"), ("right", "keys"))
            ]
    return "\n".join(lines)


def check(text, test, name, **paths):
    """Holds a text equal to golden/NAME.txt beside the file `test`; names replace `paths`."""
    file = pathlib.Path(test).parent / "golden" / f"{name}.txt"
    for word, path in paths.items():
        text = text.replace(str(path), word)
    for pattern, word in {r"version:[\d.]+": "version:N", r"All \d+ keys": "All N keys"}.items():
        text = re.sub(pattern, word, text)
    text = f"Delete this file, and its test writes it anew.\n\n{text}"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        pytest.fail(f"{file} has been written: read it")
    assert text == file.read_text()
