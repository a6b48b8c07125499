"""The examples in the documentation are true."""

import doctest
import types

import pytest

import bowline
import bowline.decoders
from bowline import _native


def documented() -> list[tuple[str, str]]:
    found = [("bowline", bowline.__doc__)]
    for name in dir(_native):
        thing = getattr(_native, name)
        found.append((name, thing.__doc__))
        if isinstance(thing, type):
            found += [(f"{name}.{part}", getattr(thing, part).__doc__) for part in dir(thing) if not part.startswith("_")]
    return [(name, doc) for name, doc in found if doc and ">>>" in doc]


@pytest.mark.parametrize(("name", "doc"), documented(), ids=[name for name, _ in documented()])
def test_examples(name: str, doc: str, model: bowline.LanguageModel) -> None:
    shaped = bowline.kenlm.Model(model)
    known = {"bowline": bowline, "model": shaped if name.startswith("Model") else model}
    test = doctest.DocTestParser().get_doctest(doc, known, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    results = runner.run(test)
    assert results.attempted > 0 and results.failed == 0


def test_everything_is_documented_and_exported() -> None:
    assert len(documented()) >= 15
    for name in bowline.__all__:
        thing = getattr(bowline, name)
        if isinstance(thing, types.ModuleType) or name == "__version__":
            continue
        assert thing.__doc__, name
        if isinstance(thing, type):
            parts = [part for part in vars(thing) if not part.startswith("_")]
            assert all(getattr(thing, part).__doc__ for part in parts), name


def test_objects_describe_themselves(model: bowline.LanguageModel) -> None:
    assert repr(model) == "<LanguageModel real: 12 words, from 'runs/cats'>"
    assert repr(model.score("the cat")).startswith("<Score: 2 words, logprob -")
    assert repr(model.surprisal("the cat")).startswith("<Surprisal: 2 words, ")
    assert repr(bowline.kenlm.Model(model)) == "<Model from 'runs/cats'>"
    assert repr(bowline.kenlm.State()) == "<State: nothing read>"
    assert repr(bowline.resume("runs/cats")).startswith("<Run 'runs/cats': real, valid perplexity ")
