"""KenLM's Python module with Bowline's models: `import bowline.kenlm as kenlm`. Scores are base-10 logarithms."""

from ._native import FullScoreReturn, Model, State

LanguageModel = Model

__all__ = ["FullScoreReturn", "LanguageModel", "Model", "State"]
