"""The examples in the documentation strings run."""

import doctest

import numpy

import tensorferry
from tensorferry import _core, errors, ps


def test_examples(pair):
    region = pair.receiver_device.allocate(64)
    names = dict(vars(pair), tensorferry=tensorferry, numpy=numpy, np=numpy, memory=region.array(),
                 remote=pair.receiver_device.grant(region))
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    found = []
    for holder in (_core, errors, ps):
        found += finder.find(holder, holder.__name__, globs=names)
    for name, cls in vars(_core).items():
        if isinstance(cls, type):
            for at, text in [(name, cls.__doc__)] + [(f"{name}.{key}", value.__doc__) for key, value in vars(cls).items()]:
                if text and ">>>" in text:
                    found.append(doctest.DocTestParser().get_doctest(text, names, at, None, 0))
    for each in found:
        each.globs = names.copy()
        runner.run(each)
    assert runner.failures == 0 and runner.tries > 15
