"""Functions of the standard library, replaced for the module under test only."""

from types import ModuleType, SimpleNamespace


def with_functions(library: ModuleType, **functions: object) -> SimpleNamespace:
    """Return the contents of a module with some functions replaced.

    Put it in place of the module in the module under test. Threads that libraries left behind keep the original.
    """
    return SimpleNamespace(**{**vars(library), **functions})
