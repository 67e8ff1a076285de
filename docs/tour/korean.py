"""The tour's charts and drawings in Korean, made from the English ones: nothing is measured again.

python -m docs.tour.korean draws docs/pictures/ko/ from docs/pictures/.
"""

import html
import re
from pathlib import Path
from typing import Any

from docs.tour import picture

# {what an English chart says: the same in Korean}, whole or between commas.
WORDS = {
    # tokens
    "나는 사과를 좋아해: P(next token | source, tokens before)": (
        "나는 사과를 좋아해: P(다음 토큰 | 원문, 앞의 토큰)"
    ),
    "after": "앞 토큰",
    "next": "다음 토큰",
    # pieces
    "350 pieces": "조각 350개",
    "530 pieces": "조각 530개",
    "800 pieces": "조각 800개",
    "1,200 pieces": "조각 1,200개",
    "Decomposed Hangul, 1,200 pieces": "풀어 쓴 한글, 조각 1,200개",
    "Forms in which the stem is one piece": "어간이 한 조각인 활용형",
    "pieces in the vocabulary": "어휘의 조각 수",
    "the stem": "어간",
    "stem and ending": "어간과 어미",
    "other piece": "다른 조각",
    "one byte": "바이트 하나",
    "syllables": "음절",
    "jamo": "자모",
    "composed": "완성형",
    "decomposed": "풀어 쓴 것",
    "the same after NFC": "이것을 NFC로",
    # bottleneck
    "Copy a row of letters: the share said right": "글자 줄 베끼기: 맞힌 비율",
    "letters": "글자 수",
    "in between": "인코더와 디코더 사이",
    "a vector of 32 numbers": "숫자 32개짜리 벡터",
    "a vector of 64 numbers": "숫자 64개짜리 벡터",
    "attention, states of 32": "어텐션(상태의 폭 32)",
    # forgetting
    "Gradient before training": "학습 전의 기울기",
    "Said right, one direction": "맞힌 비율, 한 방향",
    "Said right, two directions": "맞힌 비율, 두 방향",
    "letters ago": "몇 글자 앞",
    "tanh is flat beyond 2.5": "tanh는 2.5 너머에서 평평하다",
    "tanh x": "tanh x",
    "its slope": "그 기울기",
    "of the last letter's": "마지막 글자의 기울기 = 1",
    "Norm of the state": "상태의 노름",
    "letters read": "읽은 글자 수",
    "U × 1": "U × 1",
    "U × 2": "U × 2",
    "forget bias 0": "망각 편향 0",
    "forget bias 1": "망각 편향 1",
    "normalised": "정규화",
    **{name: name for name in ("tanh", "ReLU", "GELU", "GRU", "LSTM")},
    # attention
    "Which source position each target token reads": "번역문의 토큰마다 읽는 원문의 위치",
    "source": "원문",
    "target": "번역문",
    # hard
    "A row of letters, said from its end: share said right": "끝에서부터 말한 글자 줄: 맞힌 비율",
    "hard, argmax": "하드, argmax",
    "hard, straight-through": "하드, straight-through",
    "hard, REINFORCE": "하드, REINFORCE",
    "soft": "소프트",
    "place": "자리",
    "said": "말한 순서",
    "step of training": "학습 스텝",
    # lookup
    "Weights of 좋아해": "좋아해의 가중치",
    "Second number of the sum (사과를 has 4)": "합의 둘째 수(사과를은 4)",
    "query: 나는 at 0, 사과를 at 1": "쿼리: 0은 나는, 1은 사과를",
    "scores": "점수",
    # scaling
    "Variance of the scores": "점수의 분산",
    "Entropy of the weights (nats)": "가중치의 엔트로피(내트)",
    "Gradient of the softmax": "소프트맥스의 기울기",
    "width": "폭",
    "score": "점수",
    "q · k / √width": "q · k / √폭",
    # heads
    "encoder": "인코더",
    "decoder": "디코더",
    "self-attention": "셀프 어텐션",
    "masked self-attention": "마스크를 씌운 셀프 어텐션",
    "decoder to encoder": "디코더에서 인코더로",
    "head 1": "헤드 1",
    "head 2": "헤드 2",
    "from": "보는 토큰",
    "to": "보이는 토큰",
    # masking
    "causal mask: how far P moves": "인과 마스크: P의 변화",
    "no mask: how far P moves": "마스크 없음: P의 변화",
    "change of": "바꾼 토큰",
    "prediction of": "예측할 토큰",
    "Loss": "손실",
    "nats a token": "토큰당 내트",
    "when": "언제",
    "training": "학습",
    "generating": "생성",
    "model": "모델",
    "causal mask": "인과 마스크",
    "no mask": "마스크 없음",
    # positions
    "PE(position, component)": "PE(위치, 성분)",
    "PE(position) · PE(other) / 16": "PE(위치) · PE(다른 위치) / 16",
    "position": "위치",
    "component": "성분",
    "other position": "다른 위치",
    # order
    "New sentences said right": "처음 보는 문장을 맞힌 비율",
    "Korean to English": "한국어에서 영어로",
    "English to Korean": "영어에서 한국어로",
    "positions": "위치 인코딩",
    "none": "없음",
    "sinusoids": "사인과 코사인",
    # sum
    "Components of PE": "PE의 성분",
    "sine": "사인",
    "cosine": "코사인",
    "|cos| of word and position": "단어와 위치의 |cos|",
    "Right when read from the sum": "합에서 바로 읽은 비율",
    "|cosine|": "|코사인|",
    # normalisation
    "batch": "배치",
    "batch, by position": "배치, 위치마다",
    "this number": "이 수",
    "shares its mean and variance": "평균과 분산을 함께 쓰는 수",
    "not read": "읽지 않는 수",
    "feature": "특징",
    **{f"text {i}": f"텍스트 {i}" for i in (1, 2, 3)},
    **{f"position {i}": f"위치 {i}" for i in (1, 2, 3)},
    "Validation loss, nats a letter": "검증 손실, 글자당 내트",
    "After the last step, by letter": "마지막 스텝 뒤, 글자별",
    "normalisation": "정규화 방식",
    "letter": "몇째 글자",
    "2 to 24": "2~24",
    "25 to 48": "25~48",
    "batch of 32": "배치 32",
    "batch of 4": "배치 4",
    # residuals
    "Gradient norm of a layer, log10": "층별 기울기의 크기(log10)",
    "Cosine between two positions": "두 위치 사이의 코사인 유사도",
    "layer": "층",
    "post-norm (the paper)": "post-norm(논문)",
    "pre-norm": "pre-norm",
    "no residuals": "잔차 연결 없음",
    "no residuals, no norm": "잔차 연결도 정규화도 없음",
    "no norm": "정규화 없음",
    # ensemble
    "Words said right with one layer left out": "층 하나를 뺐을 때 맞힌 단어",
    **{f"layer {i}": f"{i}층" for i in (1, 2, 3, 4)},
    "left out": "뺀 층",
    # position_probe
    "R² of a noun's position, by a linear map of its vector": (
        "벡터에서 선형 변환으로 읽은 명사의 위치의 R²"
    ),
    "after layer": "지나온 층",
    "R²": "R²",
    # training
    "Learning rate": "학습률",
    "rate": "학습률",
    "step": "스텝",
    "base (width 512, warm-up 4,000)": "base(폭 512, 워밍업 4,000스텝)",
    "big (width 1024, warm-up 4,000)": "big(폭 1024, 워밍업 4,000스텝)",
    "base, warm-up 8,000": "base, 워밍업 8,000스텝",
    "Loss of a token, in nats": "토큰 하나의 손실(내트)",
    "loss": "손실",
    "P(right token)": "P(정답 토큰)",
    "smoothing 0.0": "스무딩 0.0",
    "smoothing 0.1": "스무딩 0.1",
    # beam
    "밥 먹었어? A beam of 2: the candidates of each step, with log P": (
        "밥 먹었어? 폭이 2인 빔: 단계마다 살핀 후보와 log P"
    ),
    "rank": "순위",
    "lives": "남음",
    "finished": "끝남",
    "dropped": "버림",
    # parsing
    "saw ... with the glasses": "saw에 붙는다",
    "the man with the glasses": "the man에 붙는다",
    # gpt
    "-log P of each character, given those before it (nats)": (
        "앞의 글자가 주어졌을 때 글자마다 -log P(내트)"
    ),
    "first of a word": "단어의 첫 글자",
    "later": "그 뒤의 글자",
    # bert
    "P(the missing word)": "P(빈칸의 단어)",
    "sentence": "문장",
    "word": "단어",
    # sense
    "썼다 in 128 sentences, two principal components": "문장 128개의 썼다, 주성분 둘",
    "In the corner: how often the nearest has the same sense (by chance 20 %)": (
        "구석의 수: 가장 가까운 것이 같은 뜻인 비율(우연이면 20%)"
    ),
    "before training": "학습 전",
    "after training": "학습 뒤",
    "spent (돈을)": "돈을 썼다",
    "wore (모자를)": "모자를 썼다",
    "was bitter (맛이)": "맛이 썼다",
    "wrote (글을)": "글을 썼다",
    # vit
    "In orange: the class token's attention to each patch": (
        "주황색: 분류 토큰이 패치마다 두는 어텐션"
    ),
    "disc": "원반",
    "square": "정사각형",
    "cross": "십자",
    "ring": "고리",
    # mixers
    "recurrence": "순환",
    "convolution": "합성곱",
    "attention": "어텐션",
    "state space": "상태 공간",
    "1 layer": "1층",
    "2 layers": "2층",
    "3 layers": "3층",
    "sees": "보는 단어",
    # docs/notebooks
    "Training": "학습",
    "train": "학습",
    "validation": "검증",
    "channel, in order": "채널(크기순)",
    "half-life, words": "반감기(단어)",
    # docs/diagrams: seq2seq
    "One fixed vector": "고정된 벡터 하나",
    "Attention": "어텐션",
    "gru": "gru",
    "states [B": "상태 [B",
    "32 numbers": "숫자 32개",
    "whatever the length": "길이와 상관없이",
    "weights of each step: [B": "스텝마다 가중치: [B",
    # multi_head
    "One head": "헤드 하나",
    "8 heads": "헤드 8개",
    "8 times": "8번",
    "64 wide": "폭 64",
    "query": "쿼리",
    "key": "키",
    "value": "값",
    "mask": "마스크",
    "softmax": "소프트맥스",
    "sum of values": "값의 가중합",
    "concatenate": "이어 붙이기",
    "output": "출력",
    # model
    "The Transformer": "트랜스포머",
    "the paper's base": "논문의 base",
    "512 wide:": "폭 512:",
    "63,045,632 parameters": "파라미터 63,045,632개",
    "(M: million of them)": "(M: 백만 개)",
    "B sentence pairs of": "문장 쌍 B개,",
    "S source tokens and": "원문 토큰 S개와",
    "T target tokens": "번역문 토큰 T개",
    "shifted right": "한 칸 밀림",
    "embedding": "임베딩",
    "times √512": "√512배",
    "one for both sides: 18.94 M": "양쪽에 하나: 18.94 M",
    "+ positions": "+ 위치",
    "interleaved sinusoids": "사인과 코사인",
    "6 layers": "6층",
    "feed-forward": "피드포워드",
    "2,048 wide": "폭 2,048",
    "add": "더하기",
    "layer-norm": "층 정규화",
    "masked": "마스크",
    "cross-attention": "크로스 어텐션",
    "memory [B": "메모리 [B",
    "logits": "로짓",
    "by the same matrix": "같은 행렬로",
    "P(next token)": "P(다음 토큰)",
    # layer
    "A layer of each side": "양쪽의 층 하나씩",
    "of the paper's base;": "논문의 base;",
    "numbers: parameters": "수: 파라미터",
    "dropout of 0.1": "드롭아웃 0.1,",
    "before each sum": "더하기 전마다",
    "weights [B": "가중치 [B",
    "softmax(q·k / √64) v": "소프트맥스(q·k / √64) v",
    "output 8 × 64 → 512": "출력 8 × 64 → 512",
    "inner 512 → 2,048": "안쪽 512 → 2,048",
    "outer 2,048 → 512": "바깥쪽 2,048 → 512",
    "relu": "relu",
    # decoding
    "A beam of two": "폭이 2인 빔",
    "with log P": "log P와 함께",
    "The source: all its tokens at once.": "원문: 모든 토큰이 한꺼번에.",
    "The encoder: each token attends to all.": "인코더: 토큰마다 모든 토큰을 본다.",
    **{f"The decoder reads {x}": f"디코더가 {x}를 읽고" for x in ("<s>", "I", "like", "apples")},
    "and attends.": "원문을 본다.",
    **{f"It says {x}": f"{x}를 말한다" for x in ("I", "like", "apples", "</s>")},
    **{f"with probability 0.{x}.": f"확률 0.{x}." for x in (97, 98)},
    "All steps at once; a line is as strong as its weight.": (
        "모든 스텝을 한꺼번에. 선은 가중치만큼 진하다."
    ),
}
# Fields whose texts are data, which the models read and write.
DATA = {
    *("after", "next", "source", "target", "from", "to", "change of", "prediction of", "says"),
    *("character", "sentence", "sees", "position", "text"),
}
DRAWINGS = ("seq2seq", "multi_head", "model", "layer", "decoding")  # which are no charts
WRITTEN = ("title", "subtitle", "text", "datum", "domain", "sort")  # keys of what a chart says
NAMED = ("x", "y", "color", "fill", "stroke", "shape", "size", "strokeDash", "row", "column")


def translated(chart: Any) -> Any:
    """Returns a chart, or a part of one, that says in Korean what it says; data stay."""
    if isinstance(chart, list):
        return [translated(part) for part in chart]
    if not isinstance(chart, dict):
        return chart
    special = {"config": lambda part: part, "values": rows, "encoding": named}
    special |= dict.fromkeys(WRITTEN, in_korean)
    return {key: special.get(key, translated)(part) for key, part in chart.items()}


def in_korean(said: Any) -> Any:
    """Returns a text, or each of a list, in Korean where WORDS has it."""
    if isinstance(said, list):
        return [in_korean(text) for text in said]
    if not isinstance(said, str):
        return translated(said)
    return WORDS.get(said) or ", ".join(WORDS.get(part, part) for part in said.split(", "))


def rows(values: list) -> list:
    """Returns rows with their texts in Korean, but for those of DATA, or the ticks of an axis."""
    korean = lambda row: {key: x if key in DATA else in_korean(x) for key, x in row.items()}
    return [korean(row) if isinstance(row, dict) else in_korean(row) for row in values]


def named(encoding: dict) -> dict:
    """Returns an encoding whose axes and legends have the Korean name of their field, or title."""
    name = lambda of: {"title": of["field"]} if "field" in of else {}
    shown = {key: {**name(of), **of} if key in NAMED else of for key, of in encoding.items()}
    return translated(shown)


def relabelled(drawing: str) -> str:
    """Returns an SVG whose labels are in Korean, at their places."""
    label = lambda text: f">{html.escape(in_korean(html.unescape(text[1])))}</text>"
    return re.sub(r">([^<>]+)</text>", label, drawing)


def main() -> None:
    from docs.tour.__main__ import STEPS  # which imports this file

    english, korean = Path("docs/pictures"), Path("docs/pictures/ko")
    for step in set(STEPS) - set(DRAWINGS):
        chart = picture.specification(english / f"{step}.svg")
        picture.save(translated(chart), korean / f"{step}.svg")
    for name in (f"{drawing}.svg" for drawing in DRAWINGS):
        (korean / name).write_text(relabelled((english / name).read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
