"""A registry: register with a decorator, list by pattern, create with checked options."""

import inspect
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from loope.core.errors import LoopeError, require, shown, unknown

T = TypeVar("T", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Functions or classes by name.

    Examples:
        >>> shapes = Registry("shape")
        >>> @shapes.register("square")
        ... def square(side): return side * side
        >>> shapes.names(), shapes["square"](3)
        (['square'], 9)
    """

    def __init__(self, what: str):
        self.what = what
        self._makers: dict[str, T] = {}

    def register(self, name: str, *, replace: bool = False) -> Callable[[T], T]:
        """Register a function or class under `name` (a decorator).

        Raises:
            LoopeError: if the name is taken and `replace` is not set.
        """

        def file(maker: T) -> T:
            require(isinstance(name, str), f"The name of a {self.what} must be a string, got {shown(name)}.")
            require(
                replace or name not in self._makers,
                f"The {self.what} {name!r} is registered already; choose another name or pass replace=True.",
            )
            self._makers[name] = maker
            return maker

        return file

    def names(self, pattern: str = "*") -> list[str]:
        """Return all names that match a shell-style `pattern`, in order of registration."""
        require(isinstance(pattern, str), f"A pattern must be a string such as '*', got {shown(pattern)}.")
        return [name for name in self._makers if fnmatchcase(name, pattern)]

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str) or name not in self._makers:
            raise unknown(self.what, name, self._makers)
        return self._makers[name]

    def create(self, name: str, context: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        """Call what is registered under `name`.

        Args:
            name: a registered name.
            context: arguments that describe the model, such as its width; only those in its signature are passed.
            options: the user's options; all must be in its signature.

        Raises:
            LoopeError: for an unknown name or option, or a missing argument.
        """
        maker = self[name]
        every = inspect.signature(maker).parameters
        parameters = {key: p for key, p in every.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if len(parameters) == len(every):  # one with **options checks them itself
            _check_options(f"{self.what} {name!r}", options, [p for p in parameters if p not in context])
        given = {key: value for key, value in context.items() if key in parameters and value is not None}
        missing = [
            p.name
            for p in parameters.values()
            if p.default is p.empty and p.name not in given and p.name not in options
        ]
        listed, given_as = " and ".join(f"`{each}`" for each in missing), ", ".join(f"{each}=..." for each in missing)
        require(not missing, f"The {self.what} {name!r} needs {listed}; pass {given_as}.")
        return maker(**given, **options)


def _check_options(who: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    for option in options:
        if option not in known:
            if not known:
                raise LoopeError(f"The {who} takes no options, got {option!r}; leave it out.")
            raise unknown(f"option of the {who}:", option, known)
