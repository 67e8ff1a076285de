"""The JSON of requests, answers and errors."""

import re
from typing import Annotated

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

# Checked up to the first fault, because a list may be as long as the body.
Texts = Annotated[list[str], Field(fail_fast=True)]
Term = Annotated[str, Field(pattern=r"[^\s*]")]  # neither blank nor only *


class TranslateRequest(BaseModel, extra="forbid", strict=True):
    """A request of POST /translate."""

    text: str | Texts = Field(
        description="What to translate. Each line of a text is translated by itself.",
        examples=["나는 사과를 좋아해"],
    )
    model: str = Field("", description="A name in /health; the first if it is left out.")
    num_hypotheses: int = Field(1, ge=1, description="How many to return, best first.")
    terms: dict[Term, Term] = Field(
        {}, description="{term: its translation}, if the server has decode.method=terminology."
    )
    stream: bool = Field(False, description="Answer with a line of JSON for each translated line.")


class Translation(BaseModel):
    """A hypothesis, and its score: log P over the length penalty."""

    text: str
    score: float
    missing: list[str] | None = Field(None, description="Required terms that it lacks.")
    confidence: float | None = Field(
        None, description="P(good), by translate.confidence; of several lines the lowest."
    )
    words: list[tuple[str, float]] | None = Field(None, description="(word, P) of each word.")
    flagged: bool | None = Field(None, description="Whether its confidence is too low.")


class TranslateAnswer(BaseModel):
    """The answer of POST /translate, in the order of the texts."""

    translations: list[str]
    hypotheses: list[list[Translation]] | None = Field(
        None, description="Of each text, best first; absent if they add only a score."
    )


class Error(BaseModel):
    """The answer to a failed request."""

    error: str


def failure(error: Exception) -> str:
    """Returns the client's message for an exception; only the log has its text."""
    return f"{type(error).__name__}: the log has more"


def error_response(status: int, error: str, headers: dict | None = None) -> JSONResponse:
    """Returns an answer with an error."""
    return JSONResponse({"error": error}, status, headers)


def refused(request: Request, error: HTTPException) -> JSONResponse:
    """Returns the answer to a refused request."""
    too_deep = isinstance(error.__cause__, RecursionError)
    why = "the body is not JSON: it is nested too deeply" if too_deep else error.detail
    return error_response(error.status_code, why, error.headers)


def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Returns an answer that names the faults of a request."""
    faults = error.errors()
    kind = request.headers.get("content-type", "")
    if not re.match(r"application/([^;]+\+)?json\s*(;|$)", kind, re.IGNORECASE):
        return error_response(415, "expected the header Content-Type: application/json")
    if faults[0]["type"] == "json_invalid":
        return error_response(400, f"the body is not JSON: {faults[0]['ctx']['error']}")
    # Only the first few, because a long list can have as many faults as elements.
    faults = {".".join(map(str, x["loc"][1:2])) or "body": x["msg"] for x in faults[:20]}
    if faults.get("text", "Field required") != "Field required":
        faults["text"] = "must be a string or a list of strings"
    why = "; ".join(f"{place}: {message}" for place, message in faults.items())
    return error_response(422, why)
