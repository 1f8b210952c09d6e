"""The 25 kinds of verifiable instruction of IFEval (Zhou et al. 2023, arXiv 2311.07911, table 1), each a record.

A rule is read from an instruction id and its published arguments, and says of a text what it does not follow. The
definitions are those of the paper and of its published evaluation; every one takes time linear in the text.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, ValidationError

from heldout.benchmarks.ifeval_text import capital_words, language_of, sentence_count, word_count
from heldout.errors import SetupError
from heldout.records import Record

__all__ = ["KINDS", "Rule", "read_rule"]

Relation = Literal["at least", "less than"]

_CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_STARRED = re.compile(r"\*[^\n*]*\*")
_TWICE_STARRED = re.compile(r"\*\*[^\n*]*\*\*")
_POSTSCRIPTS = MappingProxyType({"P.S.": re.compile(r"p\.\s?s\."), "P.P.S": re.compile(r"p\.\s?p\.\s?s")})
_FENCES = ("```json", "```Json", "```JSON", "```")
_FIRST_WORD_ENDS = re.compile(r"[.,?!'\"]")


class Rule(Record, ABC):
    """One instruction."""

    @abstractmethod
    def complaint(self, text: str) -> str:
        """What the text does not follow; empty where it follows the instruction."""


class Keywords(Rule):
    """`keywords:existence`: every word is somewhere, also within another word, whatever its case."""

    keywords: tuple[str, ...]

    def complaint(self, text: str) -> str:
        absent = [word for word in self.keywords if not _found(re.escape(word), text)]
        return f"{_listed(absent)} must occur and does not" if absent else ""


class KeywordFrequency(Rule):
    """`keywords:frequency`: how often a word occurs, also within another word."""

    keyword: str = Field(min_length=1)
    frequency: int
    relation: Relation

    def complaint(self, text: str) -> str:
        count = len(re.findall(re.escape(self.keyword), text, re.IGNORECASE))
        return _compared(f"{self.keyword!r} occurs", count, self.relation, self.frequency)


class ForbiddenWords(Rule):
    """`keywords:forbidden_words`: none of these, as whole words, whatever their case."""

    forbidden_words: tuple[str, ...]

    def complaint(self, text: str) -> str:
        found = [word for word in self.forbidden_words if _found(rf"\b{re.escape(word)}\b", text)]
        return f"{_listed(found)} must not occur and does" if found else ""


class LetterFrequency(Rule):
    """`keywords:letter_frequency`: how often a sign occurs, whatever its case."""

    letter: str = Field(min_length=1, max_length=1)
    let_frequency: int
    let_relation: Relation

    def complaint(self, text: str) -> str:
        count = text.lower().count(self.letter.lower())
        return _compared(f"the letter {self.letter!r} occurs", count, self.let_relation, self.let_frequency)


class ResponseLanguage(Rule):
    """`language:response_language`. A text without anything to tell by follows it, as published."""

    language: str

    def complaint(self, text: str) -> str:
        found = language_of(text)
        return "" if found in (self.language, None) else f"the language seems to be {found!r}, not {self.language!r}"


class SentenceNumber(Rule):
    """`length_constraints:number_sentences`."""

    num_sentences: int
    relation: Relation

    def complaint(self, text: str) -> str:
        return _compared("sentences:", sentence_count(text), self.relation, self.num_sentences)


class ParagraphNumber(Rule):
    """`length_constraints:number_paragraphs`: divided by `***`; none but the first and the last may be blank."""

    num_paragraphs: int

    def complaint(self, text: str) -> str:
        parts = _DIVIDER.split(text)
        blank = [at for at, part in enumerate(parts) if not part.strip()]
        if set(blank) - {0, len(parts) - 1}:
            return "a paragraph between two '***' is blank"
        return _exactly("paragraphs divided by '***'", len(parts) - len(blank), self.num_paragraphs)


class WordNumber(Rule):
    """`length_constraints:number_words`."""

    num_words: int
    relation: Relation

    def complaint(self, text: str) -> str:
        return _compared("words:", word_count(text), self.relation, self.num_words)


class ParagraphFirstWord(Rule):
    """`length_constraints:nth_paragraph_first_word`: paragraphs divided by a blank line, and how one of them begins."""

    num_paragraphs: int
    nth_paragraph: int = Field(ge=1)
    first_word: str

    def complaint(self, text: str) -> str:
        parts = text.split("\n\n")
        count = sum(bool(part.strip()) for part in parts)
        wrong_number = _exactly("paragraphs divided by a blank line", count, self.num_paragraphs)
        if wrong_number or self.nth_paragraph > count:
            return wrong_number or f"there is no paragraph {self.nth_paragraph}"
        words = parts[self.nth_paragraph - 1].split()
        first = _FIRST_WORD_ENDS.split(words[0].lstrip("'").lstrip('"').lower())[0] if words else ""
        wanted = self.first_word.lower()
        return "" if first == wanted else f"paragraph {self.nth_paragraph} begins with {first!r}, not with {wanted!r}"


class Placeholders(Rule):
    """`detectable_content:number_placeholders`: at least so many `[…]`, each within a line."""

    num_placeholders: int

    def complaint(self, text: str) -> str:
        count = sum(_bracketed(line) for line in text.split("\n"))
        return _compared("placeholders in square brackets:", count, "at least", self.num_placeholders)


class Postscript(Rule):
    """`detectable_content:postscript`: the mark is somewhere, whatever its case, with or without a space in it."""

    postscript_marker: str = Field(min_length=1)

    def complaint(self, text: str) -> str:
        marker = self.postscript_marker
        pattern = _POSTSCRIPTS.get(marker.strip()) or re.compile(re.escape(marker.strip().lower()))
        return "" if pattern.search(text.lower()) else f"there is no postscript with {marker!r}"


class BulletNumber(Rule):
    """`detectable_format:number_bullet_lists`: exactly so many lines that begin with `* ` or `-`, but not `**`."""

    num_bullets: int

    def complaint(self, text: str) -> str:
        return _exactly("bullet points", sum(1 for _ in _bullets(text)), self.num_bullets)


class ConstrainedResponse(Rule):
    """`detectable_format:constrained_response`: one of three fixed sentences occurs."""

    def complaint(self, text: str) -> str:
        return "" if any(choice in text for choice in _CHOICES) else f"none of {_listed(_CHOICES)} occurs"


class Highlights(Rule):
    """`detectable_format:number_highlighted_sections`: at least so many `*…*` or `**…**`, each within a line."""

    num_highlights: int

    def complaint(self, text: str) -> str:
        found = [*_STARRED.findall(text), *_TWICE_STARRED.findall(text)]
        count = sum(bool(one.strip("*").strip()) for one in found)
        return _compared("highlighted sections:", count, "at least", self.num_highlights)


class Sections(Rule):
    """`detectable_format:multiple_sections`: at least so many headings such as `SECTION 1`."""

    section_spliter: str = Field(min_length=1)
    num_sections: int

    def complaint(self, text: str) -> str:
        count = len(re.findall(rf"{re.escape(self.section_spliter)}\s?\d+", text))
        return _compared(f"sections with {self.section_spliter!r}:", count, "at least", self.num_sections)


class JsonFormat(Rule):
    """`detectable_format:json_format`: all of it is JSON, in a fence or not."""

    def complaint(self, text: str) -> str:
        bare = text.strip()
        for fence in _FENCES:
            bare = bare.removeprefix(fence)
        try:
            json.loads(bare.removesuffix("```").strip())
        except (ValueError, RecursionError) as fault:
            return f"it is not JSON: {fault}"
        return ""


class Title(Rule):
    """`detectable_format:title`: `<<…>>` within a line, with something in it."""

    def complaint(self, text: str) -> str:
        titles = (line[line.find("<<") : line.rfind(">>") + 2] for line in text.split("\n") if "<<" in line)
        found = any(len(title) > 4 and title.lstrip("<").rstrip(">").strip() for title in titles)
        return "" if found else "there is no title in double angular brackets"


class TwoResponses(Rule):
    """`combination:two_responses`: two different ones, divided by `******`."""

    def complaint(self, text: str) -> str:
        parts = [part.strip() for part in text.split("******")]
        told = [part for part in parts if part]
        if not all(parts[1:-1]):
            return "nothing stands between two '******'"
        if len(told) == 2 and told[0] == told[1]:
            return "the two responses are the same"
        return _exactly("responses divided by '******'", len(told), 2)


class RepeatPrompt(Rule):
    """`combination:repeat_prompt`: it begins with the request, whatever the case."""

    prompt_to_repeat: str

    def complaint(self, text: str) -> str:
        begins = text.strip().lower().startswith(self.prompt_to_repeat.strip().lower())
        return "" if begins else "it does not begin with the request, repeated word for word"


class EndPhrase(Rule):
    """`startend:end_checker`: it ends in this phrase, whatever the case, in quotation marks or not."""

    end_phrase: str

    def complaint(self, text: str) -> str:
        ends = text.strip().strip('"').lower().endswith(self.end_phrase.strip().lower())
        return "" if ends else f"it does not end with {self.end_phrase.strip()!r}"


class CapitalWordFrequency(Rule):
    """`change_case:capital_word_frequency`: how many words are in capitals."""

    capital_frequency: int
    capital_relation: Relation

    def complaint(self, text: str) -> str:
        return _compared("words in capitals:", capital_words(text), self.capital_relation, self.capital_frequency)


class EnglishCapitals(Rule):
    """`change_case:english_capital`: English, in capitals alone."""

    def complaint(self, text: str) -> str:
        return _english(text) if text.isupper() else "it is not in capital letters alone"


class EnglishSmallLetters(Rule):
    """`change_case:english_lowercase`: English, without capitals."""

    def complaint(self, text: str) -> str:
        return _english(text) if text.islower() else "it is not in small letters alone"


class NoComma(Rule):
    """`punctuation:no_comma`."""

    def complaint(self, text: str) -> str:
        return f"it holds {text.count(',')} commas" if "," in text else ""


class Quotation(Rule):
    """`startend:quotation`: all of it stands in double quotation marks."""

    def complaint(self, text: str) -> str:
        bare = text.strip()
        quoted = len(bare) > 1 and bare[0] == bare[-1] == '"'
        return "" if quoted else "it does not stand in double quotation marks"


KINDS: Mapping[str, type[Rule]] = MappingProxyType(
    {
        "keywords:existence": Keywords,
        "keywords:frequency": KeywordFrequency,
        "keywords:forbidden_words": ForbiddenWords,
        "keywords:letter_frequency": LetterFrequency,
        "language:response_language": ResponseLanguage,
        "length_constraints:number_sentences": SentenceNumber,
        "length_constraints:number_paragraphs": ParagraphNumber,
        "length_constraints:number_words": WordNumber,
        "length_constraints:nth_paragraph_first_word": ParagraphFirstWord,
        "detectable_content:number_placeholders": Placeholders,
        "detectable_content:postscript": Postscript,
        "detectable_format:number_bullet_lists": BulletNumber,
        "detectable_format:constrained_response": ConstrainedResponse,
        "detectable_format:number_highlighted_sections": Highlights,
        "detectable_format:multiple_sections": Sections,
        "detectable_format:json_format": JsonFormat,
        "detectable_format:title": Title,
        "combination:two_responses": TwoResponses,
        "combination:repeat_prompt": RepeatPrompt,
        "startend:end_checker": EndPhrase,
        "change_case:capital_word_frequency": CapitalWordFrequency,
        "change_case:english_capital": EnglishCapitals,
        "change_case:english_lowercase": EnglishSmallLetters,
        "punctuation:no_comma": NoComma,
        "startend:quotation": Quotation,
    }
)
"""Published instruction id to its rule."""


def read_rule(kind: str, arguments: Mapping[str, Any]) -> Rule:
    """The rule of an instruction; arguments that are null do not count. `SetupError` for what is none."""
    if kind not in KINDS:
        raise SetupError(f"there is no instruction {kind!r}; there is {', '.join(KINDS)}")
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        return KINDS[kind].model_validate(given)
    except ValidationError as cause:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in cause.errors())
        raise SetupError(f"the arguments {given!r} of the instruction {kind!r} are wrong: {faults}") from cause


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _listed(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(repr, words))


def _compared(what: str, count: int, relation: Relation, wanted: int) -> str:
    right = count >= wanted if relation == "at least" else count < wanted
    return "" if right else f"{what} {count}, asked for {relation} {wanted}"


def _exactly(what: str, count: int, wanted: int) -> str:
    return "" if count == wanted else f"{what}: {count}, asked for exactly {wanted}"


def _english(text: str) -> str:
    found = language_of(text)
    return "" if found in ("en", None) else f"the language seems to be {found!r}, not English"


def _bracketed(line: str) -> int:
    """Non-overlapping `[…]` from the left."""
    count, start = 0, line.find("[")
    while start >= 0 and (end := line.find("]", start)) >= 0:
        count, start = count + 1, line.find("[", end)
    return count


def _bullets(text: str) -> Iterator[str]:
    """Lines that are bullet points. A star that is alone on its line has the next line for its text."""
    lines = iter(text.split("\n"))
    for line in lines:
        bare = line.lstrip()
        if bare.startswith("-") or (bare.startswith("*") and bare[1:2] not in ("", "*")):
            yield bare
        elif bare == "*" and (following := next(lines, None)) is not None:
            yield following
