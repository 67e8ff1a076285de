"""The pages of this repository as a site: `make docs`, by Sphinx.

The pages are those that GitHub shows, README.md first; what differs there is rewritten as they are
read. The API is made of the docstrings.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import sphinx.search
from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "Attention Is All You Need, in JAX"
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/api/*"]
exclude_patterns = [".*", "runs", "site", "tests", "transformer"]  # not looked through
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
myst_enable_extensions = ["html_image"]
smartquotes = False
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
viewcode_follow_imported_members = False
toc_object_entries = False
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = project
html_math_renderer = "mathml"
html_copy_source = False
html_use_index = html_domain_indices = False
html_show_copyright = False
html_show_search_summary = False  # it would be fetched, which browsers refuse to a file
html_static_path = ["site.css"]
html_css_files = ["site.css"]

NAVIGATION = {
    "Start": ("Overview <self>", "개요 (한국어) <README.ko>"),
    "Learn": (
        "The tour <docs/tour>",
        "투어 (한국어) <docs/tour.ko>",
        "Where it comes from <docs/lineage>",
        "어디에서 왔나 (한국어) <docs/lineage.ko>",
        "docs/one-batch",
    ),
    "Use": ("docs/your-data", "docs/decoding", "docs/serving", "docs/python", "docs/interop"),
    "Look at runs": ("docs/report", "docs/comparing", "docs/auditing"),
    "Large runs": (
        "docs/troubleshooting",
        "docs/running",
        "docs/reliability",
        "docs/scaling",
        "docs/performance",
    ),
    "Results": ("docs/results", "docs/records", "docs/table1", "docs/table3"),
    "The code": (
        "docs/boxes",
        "docs/forking",
        "docs/fidelity",
        "docs/internals",
        "CONTRIBUTING",
        "CHANGELOG",
        "docs/api/index",
    ),
}
API = """
API
===

.. automodule:: transformer
.. autofunction:: transformer.load
.. autofunction:: transformer.config
.. autofunction:: transformer.train

.. automodule:: transformer.tools.api.trained_models
   :members:

.. automodule:: transformer.errors
   :members:
.. automodule:: transformer.registry
   :members:

.. toctree::
   :caption: The code, folder by folder

"""

# What docutils does not know, or would give limits for indices.
AS_DOCUTILS_READS = (
    (r"\\dots\b", r"\\ldots"),
    (r"\\big/( \\textstyle)?", "/"),
    (r"(\\(?:tilde|over\w+arrow)\{\w\})_", r"\1{}_"),
)
# Braces of sets as high as they are, and the space between log and P.
AS_TEX_DRAWS = (
    (r"(?<!<mrow>\n)( *)<mo>([{}])", r'\1<mo stretchy="false">\2'),
    (r"(&ApplyFunction;</mo>)(?=\s*<(?:mi|msub|mn|mfrac))", r'\1<mspace width="0.17em"/>'),
)


class Words(sphinx.search.SearchEnglish):
    """Words of English, and of Korean also without their endings: 번역 finds 번역을."""

    def split(self, input: str) -> list[str]:
        words = super().split(input)
        return words + [x[:n] for x in words if "가" <= x[0] <= "힣" for n in range(2, len(x))]


def write_api(app: Sphinx) -> None:
    """Writes a page for each folder of transformer/, with its files in the order to read them."""
    folder = ROOT / "docs" / "api"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        old.unlink()
    rooms = [x for x in in_reading_order() if x != "transformer/tools/api"] + ["docs/tour"]
    rooms = [x for x in rooms if (ROOT / x).exists()]
    for room in rooms:
        init = ROOT / room / "__init__.py"
        named = init.read_text("utf-8") if init.exists() else ""
        files = sorted((ROOT / room).glob("[!_]*.py"), key=lambda x: (named + x.name).find(x.name))
        name = room.removeprefix("transformer/")
        page = title(name, "=") + (automodule(init.parent) if named else "")
        page += "".join(title(x.name, "-") + automodule(x, ":members:") for x in files)
        (folder / f"{name.replace('/', '.')}.rst").write_text(page, "utf-8")
    pages = [f"   {x.removeprefix('transformer/').replace('/', '.')}" for x in rooms]
    (folder / "index.rst").write_text(API + "\n".join(pages), "utf-8")


def in_reading_order() -> list[str]:
    """Returns the folders of transformer/ in the order of the README's tree."""
    _, _, rest = (ROOT / "README.md").read_text("utf-8").partition("    transformer/\n")
    tree, _, _ = rest.partition("\n\n")
    order = re.findall(r"(\w+)/", tree)
    folders = {x.parent.name: x.parent for x in (ROOT / "transformer").rglob("__init__.py")}
    rooms = [x for x in order if x in folders and x not in ("families", "tools")]
    return [folders[x].relative_to(ROOT).as_posix() for x in rooms]


def title(text: str, line: str) -> str:
    """Returns a heading of reStructuredText."""
    return f"{text}\n{line * len(text)}\n\n"


def automodule(path: Path, *options: str) -> str:
    """Returns the directive that shows the docstrings of a file or a folder."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return "\n".join([f".. automodule:: {name}", *(f"   {x}" for x in options), "\n"])


def as_on_github(app: Sphinx, name: str, text: list[str]) -> None:
    """Reads a page of GitHub: formulas within a line, links in HTML and to folders.

    A file of the code that is named in a sentence becomes a link to its docstrings.
    """
    if name.startswith("docs/api/"):
        return
    page = re.sub(r"\$`([^`]+)`\$", r"{math}`\1`", text[0])
    page = re.sub(r'<a href="([\w/-]+)\.md"', r'<a href="\1.html"', page)
    page = re.sub(r"^ {4}.*|`([\w/]+)\.py`", link_to_module, page, flags=re.MULTILINE)
    text[0] = page.replace("](tour/)", "](api/docs.tour.rst)")
    if name == root_doc:
        for caption, pages in NAVIGATION.items():
            lines = ("", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```")
            text[0] += "\n".join(lines)


def link_to_module(found: re.Match[str]) -> str:
    """Returns a link for `data/pairs.py`, if that is in the API."""
    name = found[1] or ""
    for path in (f"transformer/{name}", name):
        in_api = "/" in name and path.startswith(("transformer/", "docs/tour/"))
        if in_api and (ROOT / f"{path}.py").exists():
            return f"{{py:mod}}`{name}.py <{path.replace('/', '.')}>`"
    return found[0]


def as_rst(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Reads a docstring, which is prose with `code`; blocks of code are indented."""
    escaped = lambda found: f"``{found[1]}``" if found[1] else "\\" * bool(found[2]) + found[0]
    prose = lambda part: re.sub(
        r"`([^`]+)`|^\* |\*\w+\*|([\\*|_`])", escaped, part, flags=re.MULTILINE
    )
    parts = "\n".join(lines).split("\n\n")
    parts = [f"::\n\n{x}" if x.startswith("    ") else prose(x) for x in parts]
    lines[:] = "\n\n".join(parts).splitlines()


def fields_of_a_flax_module(app: Sphinx, *arguments: Any) -> tuple[str, str] | None:
    """Leaves out of a signature what flax.linen adds to each module."""
    signature, returns = arguments[-2:]
    if signature and "parent: " in signature:
        return signature.partition("parent: ")[0].rstrip(" ,") + ")", returns


def mathml(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Writes a formula as MathML, which browsers draw without a script."""
    tex = node.astext()
    for pattern, replacement in AS_DOCUTILS_READS:
        tex = re.sub(pattern, replacement, tex)
    formula = latex2mathml.tex2mathml(tex, as_block=isinstance(node, nodes.math_block))
    for pattern, replacement in AS_TEX_DRAWS:
        formula = re.sub(pattern, replacement, formula)
    writer.body.append(formula)
    raise nodes.SkipNode


def language_of_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Says which language a page is in, to screen readers and hyphenation."""
    context["language"] = "ko" if page.endswith(".ko") else "en"


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Gives the front page the name under which servers and people look for it."""
    if not error:
        shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Extends Sphinx by the functions above."""
    sphinx.search.languages["en"] = Words
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("builder-inited", write_api)
    app.connect("source-read", as_on_github)
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("autodoc-process-signature", fields_of_a_flax_module)
    app.connect("html-page-context", language_of_page)
    app.connect("build-finished", write_index)
