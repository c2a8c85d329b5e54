"""The one error that users see: what is wrong, and what to do about it."""


def printable(text: str) -> str:
    """`text` for a terminal or a file: control characters and what UTF-8 can't hold become escapes, \\x1b.

    Names of files and classes come from others: they could move the cursor, or break JSON.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def out_of_memory(error: Exception) -> bool:
    """Whether a library ran out of memory: torch and onnxruntime raise no MemoryError, only words."""
    words = ("out of memory", "not enough memory", "allocate memory", "bad_alloc", "bad allocation", "available memory")
    return isinstance(error, MemoryError) or any(each in str(error).lower() for each in words)


class SoftscopeError(Exception):
    """`what` says what is wrong (file, tensor, expected, found); `hint` says what to do. Both are one line.

    >>> str(SoftscopeError("weights.npz: 3 rows of bias for 4 classes", "Give one number per class"))
    'weights.npz: 3 rows of bias for 4 classes. Give one number per class'
    """

    def __init__(self, what: str, hint: str = "") -> None:
        what, hint = (printable(" ".join(text.splitlines())) for text in (what, hint))
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}. {self.hint}" if self.hint else self.what
