"""The `questions` world: classify questions by answer type."""

from heldout.worlds.questions.source import QuestionsOptions, QuestionsSource

__all__ = ["QuestionsOptions", "QuestionsSource"]
