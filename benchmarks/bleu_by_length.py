"""BLEU by sentence length, of several runs: the figure of the papers on attention.

    pip install -r benchmarks/requirements.txt      # for --picture alone
    python -m benchmarks.bleu_by_length --picture lengths.svg runs/multi30k runs/multi30k_rnn-none

Bahdanau et al. 2015, figure 2, and Luong et al. 2015, figure 6: a model that keeps a whole source
in one vector gets worse as sentences get longer, one with attention does not. Each WORKDIR has been
evaluated on --set: evaluation/SET.source, .hypothesis and .reference are read. Sentences are sorted
into buckets by the number of words of their source. Beside a bucket's BLEU is half the width of its
95 % confidence interval (sacreBLEU's bootstrap; Koehn 2004). A column compares models on the same
sentences; two columns are of different sentences. The last one is the whole test set.
"""

import argparse
import bisect
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

SIDES = ("source", "hypothesis", "reference")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workdirs", nargs="+", type=Path, metavar="WORKDIR")
    parser.add_argument("--set", default="test_2016_flickr", help="a test set's name")
    parser.add_argument(
        "--edges", default="9,11,13,15,18,22", help="fewest words of each next bucket"
    )
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--picture", type=Path, help="a file to draw into: .svg, .png or .pdf")
    arguments = parser.parse_args()
    edges = [int(edge) for edge in arguments.edges.split(",")]
    outputs = {workdir: read(workdir, arguments.set) for workdir in arguments.workdirs}
    check_same(outputs)
    source = next(iter(outputs.values()))["source"]
    rows = buckets([len(line.split()) for line in source], edges)
    scores = {
        str(workdir): {
            name: bleu(output, lines, tokenizer_of(workdir), arguments.resamples)
            for name, lines in rows.items()
        }
        for workdir, output in outputs.items()
    }
    print(table(scores, rows))
    if arguments.picture:
        draw(scores, arguments.picture)


def read(workdir: Path, name: str) -> dict[str, list[str]]:
    """Returns the lines of each side of an evaluated test set; SystemExit if it is not there."""
    files = {side: workdir / "evaluation" / f"{name}.{side}" for side in SIDES}
    missing = [str(file) for file in files.values() if not file.exists()]
    if missing:
        raise SystemExit(
            f"{missing[0]} is missing: evaluate the run first (launch.py --mode=evaluate "
            f"--workdir={workdir}), or give another --set"
        )
    return {side: file.read_text("utf-8").split("\n")[:-1] for side, file in files.items()}


def check_same(outputs: dict[Path, dict[str, list[str]]]) -> None:
    """Raises SystemExit if two runs were evaluated on different sentences."""
    first, *others = outputs
    for workdir in others:
        for side in ("source", "reference"):
            if outputs[workdir][side] != outputs[first][side]:
                raise SystemExit(f"the {side} sentences of {workdir} are not those of {first}")


def tokenizer_of(workdir: Path) -> str:
    """Returns sacreBLEU's tokeniser that the run was evaluated with."""
    return json.loads((workdir / "config.json").read_text("utf-8"))["evaluate"]["tokenize"]


def buckets(lengths: Sequence[int], edges: Sequence[int]) -> dict[str, list[int]]:
    """Returns the lines of each bucket that has any, and of all.

    Edges 9, 11 give buckets "-8", "9-10" and "11-".
    """
    inner = (f"{least}-{above - 1}" for least, above in itertools.pairwise(edges))
    names = [f"-{edges[0] - 1}", *inner, f"{edges[-1]}-"]
    rows = {name: [] for name in names}
    for line, length in enumerate(lengths):
        rows[names[bisect.bisect_right(edges, length)]].append(line)
    return {name: lines for name, lines in rows.items() if lines} | {"all": [*range(len(lengths))]}


def bleu(
    output: dict[str, list[str]], lines: Sequence[int], tokenize: str, resamples: int
) -> tuple[float, float]:
    """Returns the corpus BLEU of some lines, and the half width of its 95 % interval."""
    metric = BLEU(tokenize=tokenize)
    hypothesis, reference = ([output[side][i] for i in lines] for side in SIDES[1:])
    score = metric.corpus_score(hypothesis, [reference], n_bootstrap=resamples)
    report = json.loads(score.format(is_json=True, signature=metric.get_signature().format()))
    return score.score, report["confidence_var"]


def table(scores: dict[str, dict[str, tuple[float, float]]], rows: dict[str, list[int]]) -> str:
    """Returns a row for each run and a column for each bucket."""
    width = max(len("sentences"), *map(len, scores))
    lines = ["words".ljust(width) + "".join(bucket.rjust(13) for bucket in rows)]
    lines += ["sentences".ljust(width) + "".join(f"{len(x):13}" for x in rows.values())]
    for name, of_run in scores.items():
        cells = (f"{score:.1f} ± {half:.1f}".rjust(13) for score, half in of_run.values())
        lines.append(name.ljust(width) + "".join(cells))
    return "\n".join(lines)


def draw(scores: dict[str, dict[str, tuple[float, float]]], file: Path) -> None:
    """Draws a line for each run, with its intervals, over the buckets."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for shift, (run, of_run) in enumerate(scores.items()):
        names = [name for name in of_run if name != "all"]
        values, halves = zip(*(of_run[name] for name in names), strict=True)
        at = [i + 0.04 * (shift - (len(scores) - 1) / 2) for i in range(len(names))]
        label = f"{run} ({of_run['all'][0]:.1f} on all)"
        axes.errorbar(at, values, halves, marker="o", capsize=3, label=label)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("words of the source sentence")
    axes.set_ylabel("BLEU, with its 95 % interval")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(file)


if __name__ == "__main__":
    main()
