"""A page as a reader sees it, in plain text, held equal to a file beside the tests.

Delete a golden file, and its test writes the file anew and fails once: read the difference.
"""

import html.parser
import json
import re

import pytest

LINES = {
    **{"h1": "\n# ", "h2": "\n\n## ", "h3": "\n### ", "p": "\n", "caption": "\n", "tr": "\n"},
    **{"dt": "\n", "dd": ": ", "summary": "\n> ", "figcaption": "\nFIGURE ", "b": "*"},
    **{"th": "| ", "td": "| ", "a": "\n[", "mark": "_", "code": "`"},
}
ENDS = {"b": "*", "th": " ", "td": " ", "a": "]", "mark": "_", "code": "`"}
UNREAD = {"style", "title", "svg", "option", "label", "noscript", "script"}
SHOWN = 12  # rows of a table, or values of a plot
# What differs from one machine or version to the next.
CHANGING = {r"version:[\d.]+": "version:N", r"All \d+ keys": "All N keys"}


class Reader(html.parser.HTMLParser):
    """Collects a page's text, the JSON in its scripts, {id: values}, and (tag, attributes)."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.data, self.unread, self.elements = [], {}, "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if not self.unread and tag in UNREAD:
            self.unread = tag
        elif not self.unread:
            is_plot = attributes.get("class") == "plot"
            self.parts.append(f"\n@{attributes['id']}@" if is_plot else LINES.get(tag, ""))

    def handle_endtag(self, tag):
        if not self.unread:
            self.parts.append(ENDS.get(tag, ""))
        elif tag == self.unread:
            self.unread = ""

    def handle_data(self, data):
        if not self.unread:
            self.parts.append(re.sub(r"\s+", " ", data))
        elif self.elements[-1][1].get("type") == "application/json":
            place = self.elements[-1][1].get("id") or f"data{len(self.data)}"
            self.data[place] = json.loads(data)
            if place not in ("plots", "themes"):
                self.parts.append(f"\n@{place}@")


def read(page, but=()):
    """Returns what a reader sees of a page: its texts, tables, and the data of its pictures.

    Of the sections `but`, such as those whose numbers are a model's, only the title is kept.
    """
    reader = Reader(page)
    described = {f"plot{i}": described_plot(x) for i, x in enumerate(reader.data.get("plots", []))}
    described |= {x: described_data(y) for x, y in reader.data.items() if x.startswith("data")}
    text = re.sub("@([a-z]+[0-9]+)@", lambda m: described[m[1]], "".join(reader.parts))
    lines = [re.sub(r" +", " ", line).strip() for line in text.splitlines()]
    kept = [x for i, x in enumerate(lines) if x or (i and lines[i - 1])]
    text = "\n".join(shortened(kept)).strip() + "\n"
    for title in but:
        text = re.sub(rf"(## {title}\n)(?:.|\n)*?(?=\n## )", r"\1(left out)\n", text)
    return text


def shortened(lines):
    """Yields the lines, of a long table only the first."""
    rows = 0
    for line in lines:
        rows = rows + 1 if line.startswith("| ") else 0
        if rows <= SHOWN:
            yield line if len(line) < 400 else f"{line[:400]} ..."
        elif rows == SHOWN + 1:
            yield "| ..."


def described_plot(spec):
    """Returns the marks of a plot, each with the fields and scales of its channels, and values."""
    values = spec["data"]["values"]
    marks = []
    for layer in spec.get("layer", [spec]):
        mark = layer["mark"]["type"] if isinstance(layer["mark"], dict) else layer["mark"]
        channels = {**spec.get("encoding", {}), **layer["encoding"]}
        channels = {name: x for name, x in channels.items() if "field" in x}
        names = ", ".join(f"{name} {x['field']}" for name, x in channels.items())
        scales = {
            json.dumps(x["scale"], ensure_ascii=False) for x in channels.values() if "scale" in x
        }
        marks.append(" ".join([f"{mark}: {names}", *sorted(scales)]))
    rows = [", ".join(f"{key} {shown(x)}" for key, x in row.items()) for row in values[:SHOWN]]
    rows += [f"{len(values)} values"] * (len(values) > SHOWN)
    return "\n".join([*marks, *rows])


def shown(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def described_data(data):
    """Returns the words between which a picture of attention draws its lines."""
    if not isinstance(data[0], dict):
        return f"{len(data)} images"
    lines = []
    for example in data:
        lines.append(f"SENTENCE {example['title']}")
        for m in example["maps"]:
            layers, heads = len(m["weights"]), len(m["weights"][0])
            lines.append(f"{m['name']}, {layers} x {heads}, first {m['first']}")
            lines += [
                f"{m['left']}: {' '.join(m['queries'])}",
                f"{m['right']}: {' '.join(m['keys'])}",
            ]
    return "\n".join(lines)


def check(text, file, **names):
    """Holds a text equal to a golden file; `names` are {what to write: a path in the text}."""
    for name, path in names.items():
        text = text.replace(str(path), name)
    for pattern, name in CHANGING.items():
        text = re.sub(pattern, name, text)
    text = f"Delete this file, and its test writes it anew.\n\n{text}"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        pytest.fail(f"{file} has been written: read it")
    assert text == file.read_text()
