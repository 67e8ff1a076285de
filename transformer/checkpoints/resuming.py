"""Decides whether a run resumes in a workdir, starts from scratch there, or is refused."""

from pathlib import Path

from transformer.checkpoints import store
from transformer.checkpoints.store import BEST, LATEST, OPT_STATE
from transformer.distributed import processes
from transformer.errors import UserError


def resumable(workdir: Path) -> bool:
    """Returns whether a workdir has a checkpoint to resume from.

    False if there is no checkpoint, or only the incomplete first one of a run killed while saving
    it. UserError if there are checkpoints but none can be resumed, such as a copy of best/ for
    translation only.
    """
    latest, best = workdir / LATEST, workdir / BEST
    if any(store.has(latest / str(step), OPT_STATE) for step in store.steps(latest)):
        return True
    steps = sorted({*store.all_steps(latest), *store.all_steps(best)})
    complete = [*store.steps(latest), *store.steps(best)]
    # Nothing was ever saved, or only a first step, which is incomplete: `steps` is then [] or that
    # step alone.
    first = store.all_steps(latest)[:1]
    if steps == first and not complete and not store.all_steps(best):
        return False
    what = "can be evaluated, not resumed" if complete else "cannot be resumed"
    raise UserError(
        f"{workdir} holds trained checkpoints (steps {', '.join(map(str, steps))}), but no "
        f"complete one with an optimizer state to resume from: it {what}; nothing was changed; "
        "give another --workdir"
    )


def agreed_resumable(workdir: Path) -> bool:
    """Returns `resumable`, or raises its error, in all processes, as process 0 sees the workdir.

    Collective.
    """
    try:
        answer = [resumable(workdir), ""]
    except UserError as error:
        answer = [False, str(error)]
    answer, refusal = processes.all_gather(answer)[0]
    if refusal:
        raise UserError(refusal)
    return answer
